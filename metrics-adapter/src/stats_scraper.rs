//! StatsScraper: reads a sample of one workload's ready pods once a second and records what all of them would have said.
//!
//! Any shortfall discards the whole second: a partial sum would read as a drop in load. Pods that have run for a whole stable
//! window are asked first, for the young ones report less than they will. When answers differ so widely that their mean says
//! little (a few callers with kept connections on one of many pods), more pods are asked before any is spoken for; and those who
//! carry most are asked again in the next round, and speak for themselves alone, for a sample without them would say that there is nothing. What
//! surprises: a round is recorded at the time it was due, not when it ended, so that every round has a second of its own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::collection::Round;
use autoscaler::stats::{Stat, extrapolate, outliers, sample_size, widened_sample};
use futures::StreamExt;
use futures::future::{join_all, try_join};
use futures::stream::FuturesUnordered;
use rand::seq::SliceRandom;
use tokio::time::Instant;

use crate::collector::Collector;
use crate::metrics::Metrics;
use crate::ready_pods::{Pod, ReadyPods};
use crate::scrape_client::{ScrapeClient, ScrapeError};
use crate::scrape_schedule::{Outcome, Round as Due};
use crate::workloads::{Workload, WorkloadsReceiver};

/// A round that takes longer is given up.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads pods.
#[derive(Clone, Debug)]
pub struct StatsScraper {
    /// Where results go.
    pub collector: Arc<Collector>,
    /// Whom to ask.
    pub pods: ReadyPods,
    /// How to ask.
    pub client: ScrapeClient,
    /// What is decided on now.
    pub workloads: WorkloadsReceiver,
    /// Counters.
    pub metrics: Metrics,
}

/// Why a round was discarded.
#[derive(Debug, thiserror::Error)]
pub enum Shortfall {
    /// Not enough pods answered.
    #[error("{heard} of {wanted} pods answered, of {population} ready ones; the last error: {last}")]
    Pods {
        /// Pods that answered.
        heard: usize,
        /// Size of the sample.
        wanted: usize,
        /// Ready pods.
        population: usize,
        /// The last failure.
        last: ScrapeError,
    },
    /// The round took too long.
    #[error("the round was not over after {ROUND_TIMEOUT:?}")]
    Timeout,
}

/// What pods said.
#[derive(Default)]
struct Heard {
    pods: Vec<IpAddr>,
    /// In the same order.
    stats: Vec<Stat>,
    /// Pods whose first second is not over. They had no whole second to speak of, so the round is complete without them.
    too_young: usize,
}

// === impl StatsScraper ===

impl StatsScraper {
    /// One round, and what it leaves to the next. A change between failing and not is logged, not every second of it.
    pub async fn round(&self, Due { key, due, last }: Due) -> (Key, Outcome) {
        let workload = self.workloads.borrow().get(&key).cloned();
        let outcome = match workload {
            Some(workload) => self.read(&workload, due, last).await,
            None => last,
        };
        (key, outcome)
    }

    async fn read(&self, workload: &Workload, due: Duration, last: Outcome) -> Outcome {
        let Some(pods) = self.pods.select(&workload.key.namespace, &workload.selector) else {
            return last;
        };
        let ready: Vec<_> = pods.into_iter().filter(|pod| pod.ready).collect();
        let started = Instant::now();
        let scraped = self.scrape(ready, &last.outliers, due, workload.windows.stable).await;
        self.metrics.scrape_seconds.observe(started.elapsed().as_secs_f64());
        self.metrics.scrapes.count(scraped.is_ok());
        let key = &workload.key;
        match scraped {
            Ok((round, outliers)) => {
                self.collector.record_round(key, due, &round);
                if last.failing {
                    tracing::info!(workload = %key, "pods answer again");
                }
                Outcome { failing: false, outliers }
            }
            Err(shortfall) => {
                self.collector.record_round(key, due, &Round::Incomplete);
                if !last.failing {
                    tracing::warn!(workload = %key, %shortfall, "seconds are discarded until enough pods answer");
                }
                Outcome { failing: true, outliers: Vec::new() }
            }
        }
    }

    /// Reads the ready pods that are known as outliers and a sample of the others; who the outliers are now.
    async fn scrape(
        &self,
        ready: Vec<Arc<Pod>>,
        known: &[IpAddr],
        now: Duration,
        stable_window: Duration,
    ) -> Result<(Round, Vec<IpAddr>), Shortfall> {
        if ready.is_empty() {
            return Ok((Round::NoPods, Vec::new()));
        }
        let (known, others): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|pod| pod.ip.is_some_and(|ip| known.contains(&ip)));
        let population = others.len();
        let sample = sample_size(population);
        let candidates = candidates(others, sample, now, stable_window);
        let asking = try_join(self.ask_all(known), self.ask(candidates, sample, population));
        let asking = tokio::time::timeout(ROUND_TIMEOUT, asking);
        let (known, others) = asking.await.unwrap_or(Err(Shortfall::Timeout))?;
        let total = extrapolate(&known.stats, &others.stats, population - others.too_young);
        let heard = known.and(others);
        // What the youngest did so far is not known.
        let idle = heard.too_young == 0 && heard.stats.iter().all(Stat::is_idle);
        Ok((Round::Heard { total, idle }, heard.outliers()))
    }

    /// Asks each of these; nobody can stand in for them.
    async fn ask_all(&self, pods: Vec<Arc<Pod>>) -> Result<Heard, Shortfall> {
        let pods: Vec<IpAddr> = pods.into_iter().filter_map(|pod| pod.ip).collect();
        let answers = join_all(pods.iter().map(|ip| self.client.scrape(*ip))).await;
        let wanted = pods.len();
        let stats: Result<Vec<_>, _> = answers.into_iter().collect();
        match stats {
            Ok(stats) => Ok(Heard { pods, stats, too_young: 0 }),
            Err(last) => Err(Shortfall::Pods { heard: 0, wanted, population: wanted, last }),
        }
    }

    /// Asks `sample` pods at a time, and more if they differ; the next candidate stands in for one that fails.
    async fn ask(
        &self,
        candidates: Vec<Arc<Pod>>,
        sample: usize,
        population: usize,
    ) -> Result<Heard, Shortfall> {
        let mut candidates = candidates.into_iter().filter_map(|pod| pod.ip);
        let ask = async |ip| (ip, self.client.scrape(ip).await);
        let mut asking: FuturesUnordered<_> = candidates.by_ref().take(sample).map(ask).collect();
        let mut heard = Heard::default();
        let mut last = None;
        while let Some((pod, answer)) = asking.next().await {
            match answer {
                Ok(stat) => heard.push(pod, stat),
                Err(error) => {
                    heard.too_young += usize::from(matches!(error, ScrapeError::TooYoung));
                    // Nobody can stand in for one who was not waited for.
                    let behind = matches!(error, ScrapeError::Behind);
                    last = Some(error);
                    asking.extend(candidates.next().filter(|_| !behind).map(ask));
                }
            }
            let spoken = heard.stats.len() + heard.too_young;
            if asking.is_empty() && spoken >= sample {
                // Those that fail from here on make the sample no worse than it was.
                let wider = heard.too_young + widened_sample(&heard.stats, population - heard.too_young);
                let more = candidates.by_ref().take(wider.saturating_sub(spoken));
                asking.extend(more.map(ask));
            }
        }
        let answered = heard.stats.len();
        if population == 0 || answered > 0 && answered + heard.too_young >= sample {
            return Ok(heard);
        }
        // A ready pod without an address cannot be; if it is, nobody answered for it.
        let last = last.unwrap_or(ScrapeError::Timeout);
        Err(Shortfall::Pods { heard: answered, wanted: sample, population, last })
    }
}

// === impl Heard ===

impl Heard {
    fn push(&mut self, pod: IpAddr, stat: Stat) {
        self.pods.push(pod);
        self.stats.push(stat);
    }

    fn and(mut self, more: Self) -> Self {
        self.pods.extend(more.pods);
        self.stats.extend(more.stats);
        self.too_young += more.too_young;
        self
    }

    fn outliers(&self) -> Vec<IpAddr> {
        outliers(&self.stats).into_iter().filter_map(|sample| self.pods.get(sample).copied()).collect()
    }
}

/// The order in which to ask: old pods first, each kind in random order.
fn candidates(ready: Vec<Arc<Pod>>, sample: usize, now: Duration, stable_window: Duration) -> Vec<Arc<Pod>> {
    if ready.len() == sample {
        return ready;
    }
    let old = |pod: &Arc<Pod>| pod.started.is_some_and(|started| started + stable_window <= now);
    let (mut old, mut young): (Vec<_>, Vec<_>) = ready.into_iter().partition(old);
    let mut rng = rand::rng();
    old.shuffle(&mut rng);
    young.shuffle(&mut rng);
    old.append(&mut young);
    old
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, started: u64) -> Arc<Pod> {
        let object: k8s_openapi::api::core::v1::Pod =
            serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
        let mut pod = Pod::from(&object);
        pod.started = Some(Duration::from_secs(started));
        Arc::new(pod)
    }

    #[test]
    fn pods_that_ran_for_a_stable_window_come_first() {
        let pods: Vec<_> = (0..10).map(|i| pod(&i.to_string(), if i < 4 { 100 } else { 500 })).collect();
        let order = candidates(pods, 7, Duration::from_secs(510), Duration::from_secs(60));
        let old: Vec<_> = order.iter().take(4).map(|pod| pod.started.unwrap().as_secs()).collect();
        assert_eq!(old, [100; 4]);
        assert_eq!(order.len(), 10);
    }

    /// A scraper and `ready` pods on addresses of their own, of which the first `answering` say they have 4 requests each.
    async fn loopback(ready: u8, answering: u8) -> (StatsScraper, Vec<Arc<Pod>>) {
        loaded(ready, answering, |_| 4.0).await
    }

    /// The same with this many requests each.
    async fn loaded(ready: u8, answering: u8, load: fn(u8) -> f64) -> (StatsScraper, Vec<Arc<Pod>>) {
        let address = |i: u8| format!("127.0.0.{}", i + 1);
        let mut port = 0;
        for i in 0..answering {
            let listener = tokio::net::TcpListener::bind((address(i), port)).await.unwrap();
            port = listener.local_addr().unwrap().port();
            let stat = Stat { average_concurrent_requests: load(i), ..Stat::default() };
            let answer = axum::routing::get(|| async { axum::Json(stat) });
            let router = axum::Router::new().route("/stat", answer);
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        let scraper = StatsScraper {
            collector: Arc::default(),
            pods: ReadyPods::default(),
            client: ScrapeClient::new(port, None),
            workloads: tokio::sync::watch::channel(Arc::default()).1,
            metrics: Metrics::register(&prometheus::Registry::new()).unwrap(),
        };
        let at = |i: u8| {
            let mut pod = Pod::clone(&pod(&i.to_string(), 0));
            pod.ip = Some(address(i).parse().unwrap());
            Arc::new(pod)
        };
        (scraper, (0..ready).map(at).collect())
    }

    /// Knative stats_scraper_test.go. Its rows of scraping through a Service (S2, S7, S8, S10) have no counterpart: pods are
    /// read by their own address only. Behind a Service nobody can tell which pod answered until it has, so some would be asked
    /// again and again; a mesh that refuses pod addresses has to leave the stats port out.
    #[tokio::test]
    async fn a_shortfall_discards_the_second() {
        let scrape = |ready, answering| async move {
            let (scraper, pods) = loopback(ready, answering).await;
            scraper
                .scrape(pods, &[], Duration::from_secs(1000), Duration::from_secs(60))
                .await
                .map(|(round, _)| round)
        };
        let all = Stat { average_concurrent_requests: 20.0, ..Stat::default() };
        assert_eq!(
            scrape(5, 4).await.unwrap(),
            Round::Heard { total: all, idle: false },
            "S5: the fifth stands in"
        );
        let shortfall = scrape(4, 3).await.unwrap_err(); // S6
        assert!(
            matches!(shortfall, Shortfall::Pods { heard: 3, wanted: 4, population: 4, .. }),
            "three answers do not speak for the fourth: {shortfall}"
        );
        assert_eq!(scrape(0, 0).await.unwrap(), Round::NoPods, "S9");
    }

    #[tokio::test]
    async fn a_hot_pod_among_many_is_not_extrapolated_from_a_few() {
        for _ in 0..5 {
            let (scraper, pods) = loaded(40, 40, |i| if i == 0 { 50.0 } else { 0.0 }).await;
            let hot = pods[0].ip;
            let (now, window) = (Duration::from_secs(1000), Duration::from_secs(60));
            let (round, outliers) = scraper.scrape(pods.clone(), &[], now, window).await.unwrap();
            let Round::Heard { total, .. } = round else { panic!("{round:?}") };
            // Whether it is among the first asked is chance; what it has is not multiplied in either case.
            assert!(total.average_concurrent_requests <= 55.0, "{total:?}");
            let found: Vec<_> = hot.into_iter().filter(|_| total.average_concurrent_requests > 0.0).collect();
            assert_eq!(outliers, found);

            // From the round on in which it was found, nothing is left to chance.
            let known: Vec<_> = hot.into_iter().collect();
            let (round, outliers) = scraper.scrape(pods, &known, now, window).await.unwrap();
            let total = Stat { average_concurrent_requests: 50.0, ..Stat::default() };
            assert_eq!((round, outliers), (Round::Heard { total, idle: false }, known));
        }
    }
}
