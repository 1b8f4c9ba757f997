//! The measuring: in each round every proxy is started afresh, and then they take turns, so that a slow minute of the machine
//! meets all of them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::args::Extent;
use crate::clock;
use crate::cpu_time::CpuTime;
use crate::load::{Generator, Pace, Tally};
use crate::memory;
use crate::proxy::{Proxy, Running};
use crate::results::{DIRECT, Load, Results, Sample};

/// The fixed load, as a share of what the reference takes with as many connections.
pub(crate) const FIXED_LOAD: f64 = 0.7;
/// Longest wait for the first answer 200, in looks of [`FIRST_ANSWER`].
const FIRST_ANSWER_LOOKS: u32 = 500;
const FIRST_ANSWER: Duration = Duration::from_millis(20);

/// Who is measured where, and how much.
pub(crate) struct Campaign<'a> {
    pub(crate) proxies: &'a [Proxy],
    pub(crate) backend: SocketAddr,
    /// For the proxies' files.
    pub(crate) directory: &'a Path,
    pub(crate) extent: Extent,
    /// Threads of the load generator.
    pub(crate) threads: usize,
}

/// One that takes its turn.
struct Subject {
    name: &'static str,
    address: SocketAddr,
    /// Whose CPU time and memory count; none without a proxy.
    processes: Vec<u32>,
}

// === impl Campaign ===

impl Campaign<'_> {
    /// # Errors
    /// When a proxy does not start, or fails under load.
    pub(crate) fn run(&self) -> Result<Results> {
        let mut results = Results::default();
        self.measure_starts(&mut results)?;
        for round in 1..=self.extent.rounds {
            eprintln!("round {round} of {}", self.extent.rounds);
            self.measure_round(&mut results)?;
        }
        Ok(results)
    }

    fn measure_starts(&self, results: &mut Results) -> Result<()> {
        for _ in 0..self.extent.starts {
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
        let mut subjects = vec![Subject { name: DIRECT, address: self.backend, processes: Vec::new() }];
        for proxy in self.proxies {
            let (started, subject) = self.start(proxy)?;
            results.add_idle_memory(proxy.name, memory::resident(&subject.processes)?);
            running.push(started);
            subjects.push(subject);
        }
        for &connections in &self.extent.connections {
            for subject in &subjects {
                let sample = self.measure(subject, connections, Pace::Saturating)?;
                results.add(subject.name, connections, Load::Saturating, sample);
            }
            let most = results.last_reference_rate(connections).context("the reference was not measured")?;
            for subject in &subjects {
                let sample = self.measure(subject, connections, Pace::PerSecond(most * FIXED_LOAD))?;
                results.add(subject.name, connections, Load::Fixed, sample);
            }
        }
        Ok(())
    }

    /// Starts a proxy, and returns when it has answered for the first time.
    fn start(&self, proxy: &Proxy) -> Result<(Running, Subject)> {
        let mut running = proxy.start(self.backend, self.directory)?;
        running.process.wait_for_listening(running.address)?;
        wait_for_answer(running.address)
            .with_context(|| format!("{} does not answer: {}", proxy.name, running.process.output()))?;
        let processes = running.process.family()?;
        let subject = Subject { name: proxy.name, address: running.address, processes };
        Ok((running, subject))
    }

    fn measure(&self, subject: &Subject, connections: usize, pace: Pace) -> Result<Sample> {
        self.load(subject, connections, pace)
            .with_context(|| format!("{}, {connections} connections", subject.name))
    }

    fn load(&self, subject: &Subject, connections: usize, pace: Pace) -> Result<Sample> {
        let mut generator = Generator::connect(subject.address, connections, self.threads)?;
        generator.run(pace, self.extent.warm_up)?;
        let before = CpuTime::of(&subject.processes)?;
        let tally = generator.run(pace, self.extent.duration)?;
        let used = CpuTime::of(&subject.processes)?.since(&before);
        report_failures(subject.name, &tally);
        Ok(Sample {
            cpu: used.total.as_secs_f64() / tally.answered as f64,
            kernel: used.kernel,
            memory: memory::resident(&subject.processes)? as f64,
            ..Sample::new(&tally)
        })
    }
}

fn report_failures(name: &str, tally: &Tally) {
    if tally.failed > 0 {
        eprintln!(
            "{name}: {} of {} requests failed, the last with {}",
            tally.failed, tally.answered, tally.last_failure
        );
    }
}

/// A proxy may listen before it has found its app.
fn wait_for_answer(address: SocketAddr) -> Result<()> {
    let once = Pace::PerSecond(1.0);
    let start = clock::now();
    for _ in 0..FIRST_ANSWER_LOOKS {
        let mut generator = Generator::connect(address, 1, 1)?;
        if generator.run(once, FIRST_ANSWER)?.answered == 1 {
            return Ok(());
        }
    }
    ensure!(false, "no answer 200 in {:?}", clock::now() - start);
    Ok(())
}
