//! Campaign: measures all proxies in rounds.
//!
//! Each round starts every proxy afresh and then measures them in turn, so that a slow minute of
//! the machine affects all of them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use bench_proxies::cpu_time::CpuTime;
use bench_proxies::{clock, memory};

use super::results::{DIRECT, Load, Results, Sample};
use crate::args::MeasurementPlan;
use crate::proxies::{Proxy, RunningProxy};
use crate::traffic::{Generator, LoadStats, RequestRate};

/// The fixed load, as a share of the reference's saturated rate with as many connections.
pub(crate) const FIXED_LOAD: f64 = 0.7;
/// Attempts until the first response, each as long as [`FIRST_RESPONSE_WAIT`].
const FIRST_RESPONSE_ATTEMPTS: u32 = 500;
const FIRST_RESPONSE_WAIT: Duration = Duration::from_millis(20);

/// What to measure, and how much.
pub(crate) struct Campaign<'a> {
    pub(crate) proxies: &'a [Proxy],
    pub(crate) backend: SocketAddr,
    /// Directory of the proxies' files.
    pub(crate) directory: &'a Path,
    pub(crate) plan: MeasurementPlan,
    /// Threads of the load generator.
    pub(crate) threads: usize,
}

/// The target of one measurement: a proxy, or the backend.
struct Target {
    name: &'static str,
    address: SocketAddr,
    /// The proxy's processes; empty for the backend.
    processes: Vec<u32>,
}

// === impl Campaign ===

impl Campaign<'_> {
    /// Measures everything.
    ///
    /// # Errors
    /// When a proxy does not start, or fails under load.
    pub(crate) fn run(&self) -> Result<Results> {
        let mut results = Results::default();
        self.measure_starts(&mut results)?;
        for round in 1..=self.plan.rounds {
            eprintln!("round {round} of {}", self.plan.rounds);
            self.measure_round(&mut results)?;
        }
        Ok(results)
    }

    fn measure_starts(&self, results: &mut Results) -> Result<()> {
        for _ in 0..self.plan.starts {
            for proxy in self.proxies {
                let mut running = proxy.start(self.backend, self.directory)?;
                let start = running.process.wait_for_exec()?;
                let listening = running.process.wait_for_listening(running.address)?;
                results.add_start(proxy.name, listening - start);
            }
        }
        Ok(())
    }

    fn measure_round(&self, results: &mut Results) -> Result<()> {
        let mut running = Vec::new();
        let mut targets = vec![Target { name: DIRECT, address: self.backend, processes: Vec::new() }];
        for proxy in self.proxies {
            let (started, target) = self.start(proxy)?;
            results.add_idle_memory(proxy.name, memory::resident(&target.processes)?);
            running.push(started);
            targets.push(target);
        }
        for &connections in &self.plan.connections {
            for target in &targets {
                let sample = self.measure(target, connections, RequestRate::Saturating)?;
                results.add(target.name, connections, Load::Saturating, sample);
            }
            let most = results.last_reference_rate(connections).context("the reference was not measured")?;
            for target in &targets {
                let sample = self.measure(target, connections, RequestRate::PerSecond(most * FIXED_LOAD))?;
                results.add(target.name, connections, Load::Fixed, sample);
            }
        }
        Ok(())
    }

    /// Starts a proxy, and returns after its first response.
    fn start(&self, proxy: &Proxy) -> Result<(RunningProxy, Target)> {
        let mut running = proxy.start(self.backend, self.directory)?;
        running.process.wait_for_listening(running.address)?;
        wait_for_response(running.address)
            .with_context(|| format!("{} does not respond: {}", proxy.name, running.process.output()))?;
        let processes = running.process.family()?;
        let target = Target { name: proxy.name, address: running.address, processes };
        Ok((running, target))
    }

    fn measure(&self, target: &Target, connections: usize, rate: RequestRate) -> Result<Sample> {
        self.load(target, connections, rate)
            .with_context(|| format!("{}, {connections} connections", target.name))
    }

    fn load(&self, target: &Target, connections: usize, rate: RequestRate) -> Result<Sample> {
        let mut generator = Generator::connect(target.address, connections, self.threads)?;
        generator.run(rate, self.plan.warm_up)?;
        let before = CpuTime::of(&target.processes)?;
        let stats = generator.run(rate, self.plan.duration)?;
        let used = CpuTime::of(&target.processes)?.since(&before);
        report_failures(target.name, &stats);
        Ok(Sample {
            cpu: used.total.as_secs_f64() / stats.answered as f64,
            kernel: used.kernel,
            memory: memory::resident(&target.processes)? as f64,
            ..Sample::new(&stats)
        })
    }
}

fn report_failures(name: &str, stats: &LoadStats) {
    if stats.failed > 0 {
        eprintln!(
            "{name}: {} of {} requests failed, the last with {}",
            stats.failed, stats.answered, stats.last_failure
        );
    }
}

/// A proxy may listen before it has a connection to the backend.
fn wait_for_response(address: SocketAddr) -> Result<()> {
    let once = RequestRate::PerSecond(1.0);
    let start = clock::now();
    for _ in 0..FIRST_RESPONSE_ATTEMPTS {
        let mut generator = Generator::connect(address, 1, 1)?;
        if generator.run(once, FIRST_RESPONSE_WAIT)?.answered == 1 {
            return Ok(());
        }
    }
    ensure!(false, "no response with status 200 within {:?}", clock::now() - start);
    Ok(())
}
