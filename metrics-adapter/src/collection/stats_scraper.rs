//! StatsScraper: reads a sample of one workload's ready pods once a second and extrapolates to all
//! of them.
//!
//! - Any shortfall discards the whole second, because a partial sum would read as a drop in load.
//! - Pods that have run for a whole stable window are sampled first; younger ones report less than
//!   they will.
//! - If the sampled loads differ widely (a few clients with keep-alive connections to one of many
//!   pods), the sample is widened before it is extrapolated.
//! - The pods with the highest load are scraped again in the next round and count for themselves
//!   only. A sample without them would miss their load entirely.
//! - While a sample has no request, more pods are read in turn. Only reads of all pods show that a
//!   workload is idle ([`IdleReads`](crate::collection::idle_reads::IdleReads)); they do not change
//!   the sum.
//! - A round is recorded at the time it was due, not when it ended, so every round has a second of
//!   its own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::stats::collection::ScrapeResult;
use autoscaler::stats::{Stat, extrapolate, outliers, sample_size, widened_sample};
use futures::StreamExt;
use futures::future::{join_all, try_join};
use futures::stream::FuturesUnordered;
use rand::seq::SliceRandom;
use tokio::time::Instant;

use crate::collection::collector::Collector;
use crate::collection::idle_reads::IdleReads;
use crate::collection::scrape_client::{ScrapeClient, ScrapeError};
use crate::collection::scrape_schedule::{DueRound, RoundResult};
use crate::metrics::Metrics;
use crate::watches::ready_pods::{Pod, ReadyPods};
use crate::watches::workloads::{Workload, WorkloadsReceiver};

/// A round that takes longer is abandoned.
const ROUND_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the reads beside the sample. A pod that does not respond must not cost the workload
/// the next second's round.
const IDLE_READ_TIMEOUT: Duration = Duration::from_millis(400);

/// Scrapes the pods of workloads.
#[derive(Clone, Debug)]
pub struct StatsScraper {
    /// Receives the results.
    pub collector: Arc<Collector>,
    /// The pods to scrape.
    pub pods: ReadyPods,
    /// The client to scrape with.
    pub client: ScrapeClient,
    /// The current workloads.
    pub workloads: WorkloadsReceiver,
    /// Counters.
    pub metrics: Metrics,
}

/// Why a round was discarded.
#[derive(Debug, thiserror::Error)]
pub enum Shortfall {
    /// Not enough pods answered.
    #[error(
        "{answered} of {wanted} sampled pods answered, out of {population} ready pods; last error: {last}"
    )]
    Pods {
        /// Pods that answered.
        answered: usize,
        /// Size of the sample.
        wanted: usize,
        /// Ready pods.
        population: usize,
        /// The last failure.
        last: ScrapeError,
    },
    /// The round took too long.
    #[error("the round did not finish within {ROUND_TIMEOUT:?}")]
    Timeout,
}

/// The stats of the pods that answered.
#[derive(Default)]
struct SampledPods {
    pods: Vec<IpAddr>,
    /// In the same order.
    stats: Vec<Stat>,
    /// Pods that have not completed a first second. They have no stat yet, and the round is
    /// complete without them.
    too_young: usize,
}

// === impl StatsScraper ===

impl StatsScraper {
    /// Runs one round and returns what the next one needs. Logs only the first failure and the
    /// recovery.
    pub async fn run_round(&self, round: DueRound) -> (Key, RoundResult) {
        let DueRound { key, due, last } = round;
        let workload = self.workloads.borrow().get(&key).cloned();
        let result = match workload {
            Some(workload) => self.scrape_and_record(&workload, due, last).await,
            None => last,
        };
        (key, result)
    }

    async fn scrape_and_record(&self, workload: &Workload, due: Duration, last: RoundResult) -> RoundResult {
        let Some(pods) = self.pods.select(&workload.key.namespace, &workload.selector) else {
            return last;
        };
        let ready: Vec<_> = pods.into_iter().filter(|pod| pod.ready).collect();
        let started = Instant::now();
        let failing_before = last.failing;
        let scraped = self.scrape(ready, last, due, workload.windows.stable).await;
        self.metrics.scrape_duration.observe(started.elapsed().as_secs_f64());
        self.metrics.scrapes.count(scraped.is_ok());
        let key = &workload.key;
        match scraped {
            Ok((round, result)) => {
                self.collector.record_scrape(key, due, &round);
                if failing_before {
                    tracing::info!(workload = %key, "scraping recovered");
                }
                result
            }
            Err(shortfall) => {
                self.collector.record_scrape(key, due, &ScrapeResult::Incomplete);
                if !failing_before {
                    tracing::warn!(workload = %key, %shortfall, "scraping failed, discarding seconds until it recovers");
                }
                RoundResult { failing: true, ..RoundResult::default() }
            }
        }
    }

    /// Scrapes the last round's outliers and a sample of the other pods; also returns what the next
    /// round needs.
    async fn scrape(
        &self,
        ready: Vec<Arc<Pod>>,
        last: RoundResult,
        now: Duration,
        stable_window: Duration,
    ) -> Result<(ScrapeResult, RoundResult), Shortfall> {
        if ready.is_empty() {
            return Ok((ScrapeResult::NoPods, RoundResult::default()));
        }
        let addresses: Vec<IpAddr> = ready.iter().filter_map(|pod| pod.ip).collect();
        // An undecodable pod has no address, and may be busy.
        let addressed = addresses.len() == ready.len();
        let (outliers, others): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|pod| pod.ip.is_some_and(|ip| last.outliers.contains(&ip)));
        let population = others.len();
        let sample = sample_size(population);
        let candidates = candidates(others, sample, now, stable_window);
        let scrapes = try_join(self.scrape_all(outliers), self.scrape_sample(candidates, sample, population));
        let scrapes = tokio::time::timeout(ROUND_TIMEOUT, scrapes);
        let (outliers, others) = scrapes.await.unwrap_or(Err(Shortfall::Timeout))?;
        let total = extrapolate(&outliers.stats, &others.stats, population - others.too_young);
        let mut sampled = outliers.and(others);
        let mut idle_reads = last.idle_reads;
        if sampled.is_idle() {
            let due = idle_reads.due(&addresses, &sampled.pods, stable_window);
            sampled = sampled.and(self.read_more(due).await);
        }
        let covered = sampled.cover(&addresses, &mut idle_reads, now, stable_window);
        let idle = addressed && covered && sampled.is_idle();
        let result = RoundResult { failing: false, outliers: sampled.outliers(), idle_reads };
        Ok((ScrapeResult::Complete { total, idle }, result))
    }

    /// Scrapes each of these pods. One that does not respond in time is left out.
    async fn read_more(&self, pods: Vec<IpAddr>) -> SampledPods {
        let scrape = async |ip| (ip, self.client.scrape(ip, None).await);
        let mut scrapes: FuturesUnordered<_> = pods.into_iter().map(scrape).collect();
        let (mut read, deadline) = (SampledPods::default(), Instant::now() + IDLE_READ_TIMEOUT);
        while let Ok(Some((pod, result))) = tokio::time::timeout_at(deadline, scrapes.next()).await {
            match result {
                Ok(stat) => read.push(pod, stat),
                Err(error) => read.too_young += usize::from(matches!(error, ScrapeError::TooYoung)),
            }
        }
        read
    }

    /// Scrapes each of these pods; one failure is a shortfall.
    async fn scrape_all(&self, pods: Vec<Arc<Pod>>) -> Result<SampledPods, Shortfall> {
        let pods: Vec<IpAddr> = pods.into_iter().filter_map(|pod| pod.ip).collect();
        let results = join_all(pods.iter().map(|ip| self.client.scrape(*ip, None))).await;
        let wanted = pods.len();
        let stats: Result<Vec<_>, _> = results.into_iter().collect();
        match stats {
            Ok(stats) => Ok(SampledPods { pods, stats, too_young: 0 }),
            Err(last) => Err(Shortfall::Pods { answered: 0, wanted, population: wanted, last }),
        }
    }

    /// Scrapes `sample` candidates, and more if their loads differ widely. The next candidate
    /// replaces one that fails.
    async fn scrape_sample(
        &self,
        candidates: Vec<Arc<Pod>>,
        sample: usize,
        population: usize,
    ) -> Result<SampledPods, Shortfall> {
        let mut candidates = candidates.into_iter().filter_map(|pod| pod.ip);
        let scrape = async |ip| (ip, self.client.scrape(ip, None).await);
        let mut scrapes: FuturesUnordered<_> = candidates.by_ref().take(sample).map(scrape).collect();
        let mut sampled = SampledPods::default();
        let mut last = None;
        while let Some((pod, result)) = scrapes.next().await {
            match result {
                Ok(stat) => sampled.push(pod, stat),
                Err(error) => {
                    sampled.too_young += usize::from(matches!(error, ScrapeError::TooYoung));
                    // The pod may be fine. Another scrape would add to this process's own load.
                    let overloaded = matches!(error, ScrapeError::Overloaded);
                    last = Some(error);
                    scrapes.extend(candidates.next().filter(|_| !overloaded).map(scrape));
                }
            }
            let answered = sampled.stats.len() + sampled.too_young;
            if scrapes.is_empty() && answered >= sample {
                // The sample is complete, so failures from here on do not count.
                let wider =
                    sampled.too_young + widened_sample(&sampled.stats, population - sampled.too_young);
                let more = candidates.by_ref().take(wider.saturating_sub(answered));
                scrapes.extend(more.map(scrape));
            }
        }
        let answered = sampled.stats.len();
        if population == 0 || answered > 0 && answered + sampled.too_young >= sample {
            return Ok(sampled);
        }
        // Without a scrape error, the candidates had no addresses: undecodable pods.
        let last = last.unwrap_or(ScrapeError::Timeout);
        Err(Shortfall::Pods { answered, wanted: sample, population, last })
    }
}

// === impl SampledPods ===

impl SampledPods {
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

    /// Whether none of them has a request. A pod that is too young has no stat yet, so it may be
    /// busy.
    fn is_idle(&self) -> bool {
        self.too_young == 0 && self.stats.iter().all(Stat::is_idle)
    }

    /// Whether each ready pod is among these reads, or was read without a request in the rounds
    /// before.
    fn cover(&self, ready: &[IpAddr], reads: &mut IdleReads, now: Duration, window: Duration) -> bool {
        if self.pods.len() == ready.len() {
            reads.clear();
            return true;
        }
        let idle = self.stats.iter().map(Stat::is_idle);
        reads.record(ready, self.pods.iter().copied().zip(idle), now);
        reads.cover(ready, now, window)
    }

    fn outliers(&self) -> Vec<IpAddr> {
        outliers(&self.stats).into_iter().filter_map(|sample| self.pods.get(sample).copied()).collect()
    }
}

/// The pods in the order to sample them: old ones first, each group shuffled.
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
    fn samples_pods_that_ran_for_a_stable_window_first() {
        let pods: Vec<_> = (0..10).map(|i| pod(&i.to_string(), if i < 4 { 100 } else { 500 })).collect();
        let order = candidates(pods, 7, Duration::from_secs(510), Duration::from_secs(60));
        let old: Vec<_> = order.iter().take(4).map(|pod| pod.started.unwrap().as_secs()).collect();
        assert_eq!(old, [100; 4]);
        assert_eq!(order.len(), 10);
    }

    /// A scraper and `ready` pods on addresses of their own; the first `answering` report 4
    /// requests each.
    async fn loopback(ready: u8, answering: u8) -> (StatsScraper, Vec<Arc<Pod>>) {
        loaded(ready, answering, |_| 4.0).await
    }

    /// The same with `load(index)` requests each.
    async fn loaded(ready: u8, answering: u8, load: fn(u8) -> f64) -> (StatsScraper, Vec<Arc<Pod>>) {
        let address = |i: u8| format!("127.0.0.{}", i + 1);
        let mut port = 0;
        for i in 0..answering {
            let listener = tokio::net::TcpListener::bind((address(i), port)).await.unwrap();
            port = listener.local_addr().unwrap().port();
            let stat = Stat { average_concurrent_requests: load(i), ..Stat::default() };
            let handler = axum::routing::get(|| async { axum::Json(stat) });
            let router = axum::Router::new().route("/stat", handler);
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

    /// Rows of Knative's stats_scraper_test.go. Its rows about scraping through a Service (S2, S7,
    /// S8, S10) have no counterpart, because pods are scraped by pod IP only: through a Service,
    /// the scraper cannot choose the pod and would scrape some repeatedly. A mesh that blocks pod
    /// IPs must exclude the stats port.
    #[tokio::test]
    async fn discards_second_on_shortfall() {
        let scrape = |ready, answering| async move {
            let (scraper, pods) = loopback(ready, answering).await;
            scraper
                .scrape(pods, RoundResult::default(), Duration::from_secs(1000), Duration::from_secs(60))
                .await
                .map(|(round, _)| round)
        };
        let all = Stat { average_concurrent_requests: 20.0, ..Stat::default() };
        assert_eq!(
            scrape(5, 4).await.unwrap(),
            ScrapeResult::Complete { total: all, idle: false },
            "S5: the fifth pod replaces the failed one"
        );
        let shortfall = scrape(4, 3).await.unwrap_err(); // S6
        assert!(
            matches!(shortfall, Shortfall::Pods { answered: 3, wanted: 4, population: 4, .. }),
            "three stats are not extrapolated to four pods: {shortfall}"
        );
        assert_eq!(scrape(0, 0).await.unwrap(), ScrapeResult::NoPods, "S9");
    }

    #[tokio::test]
    async fn does_not_extrapolate_one_hot_pod_to_many() {
        for _ in 0..5 {
            let (scraper, pods) = loaded(40, 40, |i| if i == 0 { 50.0 } else { 0.0 }).await;
            let hot = pods[0].ip;
            let (now, window) = (Duration::from_secs(1000), Duration::from_secs(60));
            let (round, result) =
                scraper.scrape(pods.clone(), RoundResult::default(), now, window).await.unwrap();
            let ScrapeResult::Complete { total, .. } = round else { panic!("{round:?}") };
            // The first sample contains the hot pod or not; its load is not multiplied in either
            // case.
            assert!(total.average_concurrent_requests <= 55.0, "{total:?}");
            // A sample without it is idle, so more pods are read, and the hot pod may be among them.
            let found: Vec<_> = hot.into_iter().collect();
            assert!(result.outliers == found || total.average_concurrent_requests == 0.0, "{result:?}");

            // Once found, it is scraped in every round.
            let last = RoundResult { outliers: found.clone(), ..RoundResult::default() };
            let (round, result) = scraper.scrape(pods, last, now, window).await.unwrap();
            let total = Stat { average_concurrent_requests: 50.0, ..Stat::default() };
            assert_eq!((round, result.outliers), (ScrapeResult::Complete { total, idle: false }, found));
        }
    }

    /// Whether each of these rounds, a second apart, finds the workload idle.
    async fn idle_rounds(scraper: &StatsScraper, pods: &[Arc<Pod>], rounds: u64) -> Vec<bool> {
        let (mut last, mut found) = (RoundResult::default(), Vec::new());
        for round in 0..rounds {
            let now = Duration::from_secs(1000 + round);
            let scraped = scraper.scrape(pods.to_vec(), last, now, Duration::from_secs(60)).await;
            let (round, result) = scraped.unwrap();
            found.push(matches!(round, ScrapeResult::Complete { idle: true, .. }));
            last = result;
        }
        found
    }

    /// A sample has 12 of the 50 pods.
    #[tokio::test]
    async fn one_long_request_among_many_pods_is_never_idle() {
        let (scraper, pods) = loaded(50, 50, |i| if i == 49 { 1.0 } else { 0.0 }).await;
        assert_eq!(idle_rounds(&scraper, &pods, 20).await, [false; 20]);
    }

    #[tokio::test]
    async fn many_pods_are_idle_once_each_was_read() {
        let (scraper, pods) = loaded(50, 50, |_| 0.0).await;
        let idle = idle_rounds(&scraper, &pods, 6).await;
        assert_eq!((idle[0], &idle[4..]), (false, [true; 2].as_slice()), "{idle:?}");
        let (scraper, pods) = loaded(12, 12, |_| 0.0).await;
        assert_eq!(idle_rounds(&scraper, &pods, 2).await, [true; 2]);
    }

    #[tokio::test]
    async fn pod_without_address_keeps_workload_from_being_idle() {
        let (scraper, mut pods) = loaded(50, 50, |_| 0.0).await;
        let mut undecodable = Pod::clone(&pods[0]);
        undecodable.ip = None;
        pods.push(Arc::new(undecodable));
        assert_eq!(idle_rounds(&scraper, &pods, 8).await, [false; 8]);
    }

    #[tokio::test]
    async fn unread_pod_keeps_workload_from_being_idle() {
        let (scraper, pods) = loaded(20, 19, |_| 0.0).await;
        assert_eq!(idle_rounds(&scraper, &pods, 4).await, [false; 4]);
    }
}
