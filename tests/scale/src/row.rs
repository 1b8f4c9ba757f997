//! One row of the table: so many workloads, what they took, and against which bounds.

use std::time::Duration;

use anyhow::{Context, Result};
use bench_proxies::table;
use tokio::runtime::Runtime;

use crate::adapter::{Adapter, Setup};
use crate::args::Args;
use crate::parts;
use crate::pods::{MEAN_LOAD, Pods};
use crate::queries::{Answers, Callers};
use crate::world::World;

/// Pods of a workload that is awake.
const PODS: usize = 10;
/// Sleeping workloads are asked for as often as their HPAs do.
const HPA_PERIOD: u32 = 15;
/// Share of the seconds, and of the decisions, that must be there. The rest is the edges of what was counted.
const COMPLETE: f64 = 0.99;

/// The table's heads.
pub(crate) const HEADS: [&str; 11] =
    ["workloads", "pods", "asked/s", "read/s", "decided/s", "CPU", "kernel", "RSS", "queries", "p50", "p99"];

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    workloads: usize,
    asleep: bool,
}

/// What is asked of a size.
struct Bounds {
    /// Cores.
    cpu: f64,
    /// MiB.
    memory: f64,
    p99: Duration,
}

/// What was found.
pub(crate) struct Measured {
    size: Size,
    ready: Duration,
    seconds: f64,
    asked: f64,
    read: f64,
    unread: f64,
    decided: f64,
    cpu: f64,
    kernel: f64,
    memory: f64,
    answers: Answers,
}

// === impl Size ===

impl Size {
    /// A hundred that sleep, and then these, awake.
    pub(crate) fn all(awake: &[usize]) -> Vec<Self> {
        let asleep = Self { workloads: 100, asleep: true };
        let awake = awake.iter().map(|workloads| Self { workloads: *workloads, asleep: false });
        std::iter::once(asleep).chain(awake).collect()
    }

    fn pods(self) -> usize {
        if self.asleep { 0 } else { PODS }
    }

    fn queries(self, asked: u32) -> u32 {
        let of_hpas = u32::try_from(self.workloads).unwrap_or(u32::MAX).div_ceil(HPA_PERIOD);
        if self.asleep { of_hpas } else { asked }
    }

    fn bounds(self) -> Bounds {
        let p99 = Duration::from_millis(10);
        if self.asleep {
            Bounds { cpu: 0.005, memory: 25.0, p99 }
        } else {
            Bounds { cpu: 1.0, memory: 1024.0, p99 }
        }
    }

    fn name(self) -> String {
        let workloads = table::count(self.workloads as f64);
        if self.asleep { format!("{workloads} asleep") } else { workloads }
    }
}

/// Measures one size.
pub(crate) fn measure(runtime: &Runtime, args: &Args, size: Size, pods: &Pods) -> Result<Measured> {
    let directory = args.cache.join("scale");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let world = runtime.block_on(World::new(size.workloads, size.pods(), &directory))?;
    let adapter = Adapter::start(&Setup {
        binary: &args.metrics_adapter,
        kubeconfig: &world.kubeconfig,
        pod_port: pods.port,
        directory: &directory,
        name: "metrics-adapter-0".to_owned(),
        shutdown_delay: Duration::ZERO,
    })?;
    runtime.block_on(async {
        let ready = adapter.ready().await?;
        let _parts = parts::connect(adapter.stats, size.workloads).await?;
        let callers = Callers::connect(&world, &adapter, size.workloads).await?;
        tokio::time::sleep(Duration::from_secs(args.settle)).await;

        let (counts, cpu, asked) = (adapter.counts().await?, adapter.cpu_time()?, pods.asked());
        let start = tokio::time::Instant::now();
        let answers = callers.ask(size.queries(args.queries), Duration::from_secs(args.seconds)).await?;
        let used = adapter.cpu_time()?.since(&cpu);
        let (seconds, memory) = (start.elapsed().as_secs_f64(), adapter.resident()?);
        let asked = (pods.asked() - asked) as f64 / seconds;
        let now = adapter.counts().await?;
        let each_second = |name: &str| now.since(&counts, name) / seconds;
        Ok(Measured {
            size,
            ready,
            seconds,
            asked,
            read: each_second("scrapes_total{outcome=\"ok\"}"),
            unread: now.since(&counts, "scrapes_total{outcome=\"failed\"}"),
            // Of a workload that sleeps there is nothing to decide by, and it is looked at all the same.
            decided: each_second("decisions_total{outcome=\"ok\"}")
                + each_second("decisions_total{outcome=\"failed\"}"),
            cpu: used.total.as_secs_f64() / seconds,
            kernel: used.kernel,
            memory: memory as f64,
            answers,
        })
    })
}

// === impl Measured ===

impl Measured {
    pub(crate) fn cells(&self) -> Vec<String> {
        let quantile = |quantile| table::latency(self.quantile(quantile).as_secs_f64());
        vec![
            self.size.name(),
            table::count((self.size.workloads * self.size.pods()) as f64),
            table::count(self.asked),
            table::count(self.read),
            table::count(self.decided),
            format!("{:.0} m", self.cpu * 1000.0),
            format!("{:.0} %", self.kernel * 100.0),
            table::bytes(self.memory),
            table::count(self.answers.latency.len() as f64),
            quantile(0.5),
            quantile(0.99),
        ]
    }

    pub(crate) fn in_words(&self) -> String {
        format!(
            "{}: knew all after {:.1} s, read {:.0} and decided {:.0} a second, {:.3} cores, {}, p99 {}",
            self.size.name(),
            self.ready.as_secs_f64(),
            self.read,
            self.decided,
            self.cpu,
            table::bytes(self.memory),
            table::latency(self.quantile(0.99).as_secs_f64()),
        )
    }

    /// The bounds that it missed.
    pub(crate) fn missed(&self) -> Vec<String> {
        let Bounds { cpu, memory, p99 } = self.size.bounds();
        let workloads = self.size.workloads as f64;
        let mean = MEAN_LOAD * self.size.pods() as f64;
        let asked = f64::from(u32::try_from(self.answers.latency.len()).unwrap_or(u32::MAX));
        let checks = [
            (
                self.read >= COMPLETE * workloads,
                format!("each workload is read each second: {:.1}", self.read),
            ),
            (self.unread == 0.0, format!("every round is complete: {} were not", self.unread)),
            (
                self.decided >= COMPLETE * workloads / 2.0,
                format!("each is decided on every two seconds: {:.1} a second", self.decided),
            ),
            (self.cpu <= cpu, format!("at most {:.0} m of CPU: {:.0} m", cpu * 1e3, self.cpu * 1e3)),
            (
                self.memory <= memory * f64::from(1 << 20),
                format!("at most {memory:.0} MiB: {}", table::bytes(self.memory)),
            ),
            (
                self.quantile(0.99) <= p99,
                format!(
                    "p99 of at most {p99:?}: {:?} of {asked} in {:.0} s",
                    self.quantile(0.99),
                    self.seconds
                ),
            ),
            (
                self.answers.failed == 0 && asked > 0.0,
                format!(
                    "every query is answered: {} failed: {:?}",
                    self.answers.failed, self.answers.failure
                ),
            ),
            (
                (self.answers.mean_value - mean).abs() <= 0.05 * mean,
                format!("the values are the pods': {} and not {mean}", self.answers.mean_value),
            ),
        ];
        let name = self.size.name();
        checks.into_iter().filter(|(met, _)| !met).map(|(_, what)| format!("{name}: {what}")).collect()
    }

    fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_micros(self.answers.latency.value_at_quantile(quantile))
    }
}
