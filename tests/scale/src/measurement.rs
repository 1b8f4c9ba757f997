//! Measurement: cost and latency of the adapter with one number of workloads, and the bounds on
//! them.

use std::time::Duration;

use anyhow::{Context, Result};
use bench_proxies::table;
use tokio::runtime::Runtime;

use crate::adapter::{Adapter, AdapterConfig};
use crate::args::Args;
use crate::components;
use crate::fake_cluster::FakeCluster;
use crate::hpa_queries::{HpaClients, QueryResults};
use crate::pods::{MEAN_LOAD, Pods};

/// Pods of an active workload.
const PODS: usize = 10;
/// Seconds between two queries of an HPA, for workloads at zero.
const HPA_PERIOD: u32 = 15;
/// Share of the scrapes and decisions that must be counted. The rest is lost at the edges of the
/// measurement.
const COMPLETE: f64 = 0.99;

/// Columns of the table.
pub(crate) const COLUMNS: [&str; 12] = [
    "workloads",
    "pods",
    "learners",
    "pod queries/s",
    "scrapes/s",
    "decisions/s",
    "CPU",
    "kernel",
    "RSS",
    "queries",
    "p50",
    "p99",
];

/// The workloads of one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkloadCount {
    workloads: usize,
    at_zero: bool,
}

/// Bounds on one measurement.
struct Bounds {
    /// Cores.
    cpu: f64,
    /// MiB.
    memory: f64,
    p99: Duration,
}

/// The results with one number of workloads.
pub(crate) struct Measurement {
    count: WorkloadCount,
    ready: Duration,
    /// Workloads with a learned target.
    learners: usize,
    seconds: f64,
    pod_queries: f64,
    scrapes: f64,
    failed_scrapes: f64,
    decisions: f64,
    cpu: f64,
    kernel: f64,
    memory: f64,
    queries: QueryResults,
}

// === impl WorkloadCount ===

impl WorkloadCount {
    /// A hundred workloads at zero, and then these numbers of active ones.
    pub(crate) fn all(active: &[usize]) -> Vec<Self> {
        let at_zero = Self { workloads: 100, at_zero: true };
        let active = active.iter().map(|workloads| Self { workloads: *workloads, at_zero: false });
        std::iter::once(at_zero).chain(active).collect()
    }

    fn pods(self) -> usize {
        if self.at_zero { 0 } else { PODS }
    }

    fn query_rate(self, active: u32) -> u32 {
        let of_hpas = u32::try_from(self.workloads).unwrap_or(u32::MAX).div_ceil(HPA_PERIOD);
        if self.at_zero { of_hpas } else { active }
    }

    fn bounds(self) -> Bounds {
        let p99 = Duration::from_millis(10);
        if self.at_zero {
            Bounds { cpu: 0.005, memory: 25.0, p99 }
        } else {
            Bounds { cpu: 1.0, memory: 1024.0, p99 }
        }
    }

    fn name(self) -> String {
        let workloads = table::count(self.workloads as f64);
        if self.at_zero { format!("{workloads} at zero") } else { workloads }
    }
}

/// Measures the adapter with one number of workloads.
pub(crate) fn measure(
    runtime: &Runtime,
    args: &Args,
    count: WorkloadCount,
    pods: &Pods,
) -> Result<Measurement> {
    let directory = args.cache.join("scale");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let cluster = FakeCluster::new(count.workloads, count.pods(), pods.port, &args.learn_target, &directory);
    let cluster = runtime.block_on(cluster)?;
    let adapter = Adapter::start(&AdapterConfig {
        binary: &args.metrics_adapter,
        kubeconfig: &cluster.kubeconfig,
        directory: &directory,
        name: "metrics-adapter-0".to_owned(),
        shutdown_delay: Duration::ZERO,
    })?;
    runtime.block_on(async {
        let ready = adapter.ready().await?;
        let _components = components::connect(adapter.stats, count.workloads).await?;
        let clients = HpaClients::connect(&cluster, &adapter, count.workloads).await?;
        tokio::time::sleep(Duration::from_secs(args.settle)).await;

        let (before, cpu, pod_queries) = (adapter.metrics().await?, adapter.cpu_time()?, pods.queries());
        let start = tokio::time::Instant::now();
        let rate = count.query_rate(args.queries);
        let queries = clients.run(rate, Duration::from_secs(args.seconds)).await?;
        let used = adapter.cpu_time()?.since(&cpu);
        let (seconds, memory) = (start.elapsed().as_secs_f64(), adapter.resident()?);
        let pod_queries = (pods.queries() - pod_queries) as f64 / seconds;
        let now = adapter.metrics().await?;
        let per_second = |name: &str| now.increase_since(&before, name) / seconds;
        Ok(Measurement {
            count,
            ready,
            learners: now.series("learning_phase"),
            seconds,
            pod_queries,
            scrapes: per_second("scrapes_total{outcome=\"ok\"}"),
            failed_scrapes: now.increase_since(&before, "scrapes_total{outcome=\"failed\"}"),
            // A workload at zero has no data for a decision, and the attempt counts as failed.
            decisions: per_second("decisions_total{outcome=\"ok\"}")
                + per_second("decisions_total{outcome=\"failed\"}"),
            cpu: used.total.as_secs_f64() / seconds,
            kernel: used.kernel,
            memory: memory as f64,
            queries,
        })
    })
}

// === impl Measurement ===

impl Measurement {
    pub(crate) fn cells(&self) -> Vec<String> {
        let quantile = |quantile| table::latency(self.quantile(quantile).as_secs_f64());
        vec![
            self.count.name(),
            table::count((self.count.workloads * self.count.pods()) as f64),
            table::count(self.learners as f64),
            table::count(self.pod_queries),
            table::count(self.scrapes),
            table::count(self.decisions),
            format!("{:.0} m", self.cpu * 1000.0),
            format!("{:.0} %", self.kernel * 100.0),
            table::bytes(self.memory),
            table::count(self.queries.latency.len() as f64),
            quantile(0.5),
            quantile(0.99),
        ]
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "{}: ready after {:.1} s, {:.0} scrapes/s, {:.0} decisions/s, {:.3} cores, {}, p99 {}",
            self.count.name(),
            self.ready.as_secs_f64(),
            self.scrapes,
            self.decisions,
            self.cpu,
            table::bytes(self.memory),
            table::latency(self.quantile(0.99).as_secs_f64()),
        )
    }

    pub(crate) fn missed_bounds(&self) -> Vec<String> {
        let Bounds { cpu, memory, p99 } = self.count.bounds();
        let workloads = self.count.workloads as f64;
        let mean = MEAN_LOAD * self.count.pods() as f64;
        let answered = f64::from(u32::try_from(self.queries.latency.len()).unwrap_or(u32::MAX));
        let checks = [
            (
                self.scrapes >= COMPLETE * workloads,
                format!("one scrape per workload and second: {:.1} a second", self.scrapes),
            ),
            (self.failed_scrapes == 0.0, format!("no failed scrape: {} failed", self.failed_scrapes)),
            (
                self.decisions >= COMPLETE * workloads / 2.0,
                format!("one decision per workload every two seconds: {:.1} a second", self.decisions),
            ),
            (self.cpu <= cpu, format!("at most {:.0} m of CPU: {:.0} m", cpu * 1e3, self.cpu * 1e3)),
            (
                self.memory <= memory * f64::from(1 << 20),
                format!("at most {memory:.0} MiB: {}", table::bytes(self.memory)),
            ),
            (
                self.quantile(0.99) <= p99,
                format!(
                    "p99 of at most {p99:?}: {:?} of {answered} queries in {:.0} s",
                    self.quantile(0.99),
                    self.seconds
                ),
            ),
            (
                self.queries.failed == 0 && answered > 0.0,
                format!("no failed query: {} failed: {:?}", self.queries.failed, self.queries.last_error),
            ),
            (
                (self.queries.mean_value - mean).abs() <= 0.05 * mean,
                format!("mean value {mean}: {}", self.queries.mean_value),
            ),
        ];
        let name = self.count.name();
        checks.into_iter().filter(|(met, _)| !met).map(|(_, bound)| format!("{name}: {bound}")).collect()
    }

    fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_micros(self.queries.latency.value_at_quantile(quantile))
    }
}
