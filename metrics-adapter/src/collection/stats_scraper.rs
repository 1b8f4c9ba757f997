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
//! - Pods without a sidecar are not scraped: the activators report all of their requests. A second
//!   in which every activator reported, and none a request, is a second without requests. Their
//!   learner gets what activators reported of each pod.
//! - If a workload's target is learned, the seconds of the pods that were read are kept for its
//!   learner.

mod sampled_pods;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::selector::Selector;
use autoscaler::stats::collection::ScrapeResult;
use autoscaler::stats::{AppStat, Stat, extrapolate, sample_size, widened_sample};
use futures::StreamExt;
use futures::future::{join_all, try_join};
use futures::stream::FuturesUnordered;
use learning::PodSecond;
use rand::seq::SliceRandom;
use tokio::time::Instant;

use self::sampled_pods::SampledPods;
use crate::collection::busy_pods::BusyPods;
use crate::collection::collector::Collector;
use crate::collection::pod_reports::PodReports;
use crate::collection::scrape_client::{ScrapeClient, ScrapeError};
use crate::collection::scrape_schedule::{DueRound, RoundResult};
use crate::learning::observations::Observations;
use crate::learning::resources::resource_readings::ResourceReadings;
use crate::metrics::Metrics;
use crate::watches::pod::Pod;
use crate::watches::ready_pods::ReadyPods;
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
    /// Receives the seconds of the pods, for learning.
    pub observations: Arc<Observations>,
    /// What activators report of the pods without a sidecar.
    pub pod_reports: Arc<PodReports>,
    /// Receives the loads of the pods that were read.
    pub busy_pods: Arc<BusyPods>,
    /// Source of the memory in these seconds.
    pub resources: Arc<ResourceReadings>,
    /// The pods to scrape.
    pub pods: ReadyPods,
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

/// A round that was not discarded.
#[derive(Debug)]
struct CompletedRound {
    result: ScrapeResult,
    /// What the next round needs.
    next: RoundResult,
    /// The pods that were read.
    seconds: Vec<PodSecond>,
    /// The concurrent requests of each.
    loads: Vec<(IpAddr, f64)>,
    ready: usize,
}

/// The ready pods of one workload.
struct PodsOfWorkload {
    /// Those that get the requests of its Service.
    counted: Vec<Arc<Pod>>,
    /// The others of its target, such as a preview. Going to zero would end their requests as well.
    others: Vec<Arc<Pod>>,
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

    fn record_without_scrape(&self, workload: &Workload, due: Duration) {
        let Workload { key, selector, sidecar, .. } = workload;
        if workload.bypassed {
            // Reports of activators alone would read as a drop in load.
            return self.collector.reset(key);
        }
        let Some(ready) = self.pods.count_ready(&key.namespace, selector, *sidecar) else { return };
        let result = match ready {
            0 => ScrapeResult::NoPods,
            _ if !self.collector.all_activators_report(key) => ScrapeResult::Incomplete,
            _ => ScrapeResult::Complete { total: Stat::default(), idle: true },
        };
        self.collector.record_scrape(key, due, &result);
        if let Some(learning) = workload.learning.filter(|_| !matches!(result, ScrapeResult::Incomplete)) {
            let objective = learning.objective.map(|objective| objective.threshold);
            self.observations.record(key, due, self.reported_seconds(workload, objective, due));
        }
    }

    /// The last second of each ready pod of which all reports have arrived.
    fn reported_seconds(
        &self,
        workload: &Workload,
        objective: Option<Duration>,
        due: Duration,
    ) -> Vec<PodSecond> {
        let Workload { key, selector, sidecar, .. } = workload;
        let reports = self.pod_reports.take(key, due.as_secs().saturating_sub(1));
        let mut pods = self.pods.select(&key.namespace, selector, *sidecar).unwrap_or_default();
        pods.retain(|pod| pod.ready);
        let load = |ip: IpAddr| (ip, reports.get(&ip).map_or(0.0, |stat| stat.average_concurrent_requests));
        self.busy_pods.record(key, due, pods.len(), pods.iter().filter_map(|pod| pod.ip).map(load));
        let objective_micros = AppStat::objective_micros_of(objective);
        let second = |pod: &Arc<Pod>| {
            // Without a report the pod had no request.
            let idle = AppStat { objective_micros, ..AppStat::default() };
            let mut stat = reports.get(pod.ip.as_ref()?).cloned();
            let stat = stat.get_or_insert_with(|| Stat { app: Some(idle), ..Stat::default() });
            stat.app = stat.app.filter(|app| app.objective_micros == objective_micros);
            let second = PodSecond::new(stat, due.saturating_sub(pod.ready_since?));
            Some(self.resources.add_to(second, pod))
        };
        pods.iter().filter_map(second).collect()
    }

    async fn scrape_and_record(&self, workload: &Workload, due: Duration, last: RoundResult) -> RoundResult {
        if !workload.sidecar.is_required() {
            self.record_without_scrape(workload, due);
            return last;
        }
        let Some(ready) = self.ready_pods(workload) else { return last };
        let started = Instant::now();
        let failing_before = last.failing;
        let objective = workload.learning.and_then(|learning| learning.objective);
        let objective = objective.map(|objective| objective.threshold);
        let scraped = self.scrape(ready, last, due, workload.windows.stable, objective).await;
        self.metrics.scrape_duration.observe(started.elapsed().as_secs_f64());
        self.metrics.scrapes.count(scraped.is_ok());
        let key = &workload.key;
        match scraped {
            Ok(CompletedRound { result, next, seconds, loads, ready }) => {
                self.busy_pods.record(key, due, ready, loads.into_iter());
                self.collector.record_scrape(key, due, &result);
                if workload.learning.is_some() {
                    self.observations.record(key, due, seconds);
                }
                if failing_before {
                    tracing::info!(workload = %key, "scraping recovered");
                }
                next
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

    /// The ready pods; `None` until they are listed.
    fn ready_pods(&self, workload: &Workload) -> Option<PodsOfWorkload> {
        let Workload { key, selector, sidecar, .. } = workload;
        let ready = |selector: &Selector| {
            let mut pods = self.pods.select(&key.namespace, selector, *sidecar)?;
            pods.retain(|pod| pod.ready);
            Some(pods)
        };
        let mut others = workload.target_selector.as_ref().map_or(Some(Vec::new()), ready)?;
        others.retain(|pod| !selector.matches(&pod.labels));
        Some(PodsOfWorkload { counted: ready(selector)?, others })
    }

    /// Scrapes the last round's outliers and a sample of the other pods.
    async fn scrape(
        &self,
        PodsOfWorkload { counted: ready, others: uncounted }: PodsOfWorkload,
        last: RoundResult,
        now: Duration,
        stable_window: Duration,
        objective: Option<Duration>,
    ) -> Result<CompletedRound, Shortfall> {
        if ready.is_empty() && uncounted.is_empty() {
            let (result, next) = (ScrapeResult::NoPods, RoundResult::default());
            return Ok(CompletedRound { result, next, seconds: Vec::new(), loads: Vec::new(), ready: 0 });
        }
        let addresses: Vec<SocketAddr> =
            ready.iter().chain(&uncounted).filter_map(|pod| pod.stats_address()).collect();
        // An undecodable pod has no address, and may be busy.
        let addressed = addresses.len() == ready.len() + uncounted.len();
        let (outliers, others): (Vec<_>, Vec<_>) = ready
            .iter()
            .cloned()
            .partition(|pod| pod.stats_address().is_some_and(|address| last.outliers.contains(&address)));
        let population = others.len();
        let sample = sample_size(population);
        let candidates = candidates(others, sample, now, stable_window);
        let scrapes = try_join(
            self.scrape_all(outliers, objective),
            self.scrape_sample(candidates, sample, population, objective),
        );
        let scrapes = tokio::time::timeout(ROUND_TIMEOUT, scrapes);
        let (outliers, others) = scrapes.await.unwrap_or(Err(Shortfall::Timeout))?;
        let total = extrapolate(&outliers.stats, &others.stats, population - others.too_young);
        let mut sampled = outliers.and(others);
        let mut idle_reads = last.idle_reads;
        if sampled.is_idle() {
            let due = idle_reads.due(&addresses, &sampled.pods, stable_window);
            sampled = sampled.and(self.read_more(due, objective).await);
        }
        let covered = sampled.cover(&addresses, &mut idle_reads, now, stable_window);
        let idle = addressed && covered && sampled.is_idle();
        let next = RoundResult { failing: false, outliers: sampled.outliers(), idle_reads };
        let seconds = sampled.seconds(&ready, now, &self.resources);
        let (loads, ready) = (sampled.loads(), addresses.len());
        Ok(CompletedRound { result: ScrapeResult::Complete { total, idle }, next, seconds, loads, ready })
    }

    /// Scrapes each of these pods. One that does not respond in time is left out.
    async fn read_more(&self, pods: Vec<SocketAddr>, objective: Option<Duration>) -> SampledPods {
        let scrape = async |pod| (pod, self.client.scrape(pod, objective).await);
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
    async fn scrape_all(
        &self,
        pods: Vec<Arc<Pod>>,
        objective: Option<Duration>,
    ) -> Result<SampledPods, Shortfall> {
        let pods: Vec<SocketAddr> = pods.into_iter().filter_map(|pod| pod.stats_address()).collect();
        let results = join_all(pods.iter().map(|pod| self.client.scrape(*pod, objective))).await;
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
        objective: Option<Duration>,
    ) -> Result<SampledPods, Shortfall> {
        let mut candidates = candidates.into_iter().filter_map(|pod| pod.stats_address());
        let scrape = async |pod| (pod, self.client.scrape(pod, objective).await);
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
mod tests;
