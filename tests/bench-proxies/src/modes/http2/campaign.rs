//! Campaign: measures all proxies in rounds, as the one for HTTP/1.1 does.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench_proxies::cpu_time::CpuTime;
use bench_proxies::debian::Unpacked;
use bench_proxies::process::{Process, Program};

use super::load::{self, SHAPES, Shape};
use super::results::{DIRECT, Results, Sample};
use crate::args::MeasurementPlan;
use crate::proxies::{H2LOAD, NGHTTPD, Proxy};

/// Above the ports that proxies get.
const BACKEND_PORT: u16 = 30_001;
const BACKEND_FILE: &str = "hello from the backend\n";
/// Attempts until the first response; each takes some milliseconds.
const FIRST_RESPONSE_ATTEMPTS: u32 = 200;
const FIRST_RESPONSE_PAUSE: Duration = Duration::from_millis(20);

/// The load generator, the backend, and where they run.
pub(crate) struct Tools<'a> {
    pub(crate) peers: &'a Unpacked,
    /// Directory of the files of proxies and backend.
    pub(crate) directory: &'a Path,
    /// Threads of h2load, and of nghttpd.
    pub(crate) threads: usize,
}

/// The target of a measurement: a proxy, or the backend.
struct Target {
    name: &'static str,
    address: SocketAddr,
    processes: Vec<u32>,
}

/// Measures everything.
///
/// # Errors
/// When a program does not start, or a proxy fails under load.
pub(crate) fn measure(tools: &Tools<'_>, proxies: &[Proxy], plan: &MeasurementPlan) -> Result<Results> {
    let (_backend, address) = tools.start_backend()?;
    let mut results = Results::default();
    for round in 1..=plan.rounds {
        eprintln!("HTTP/2, round {round} of {}", plan.rounds);
        let mut running = Vec::new();
        let mut targets = vec![Target { name: DIRECT, address, processes: Vec::new() }];
        for proxy in proxies {
            let mut started = proxy.start(address, tools.directory)?;
            started.process.wait_for_listening(started.address)?;
            tools
                .wait_for_response(started.address)
                .with_context(|| format!("{}: {}", proxy.name, started.process.output()))?;
            let processes = started.process.family()?;
            targets.push(Target { name: proxy.name, address: started.address, processes });
            running.push(started);
        }
        for shape in SHAPES {
            for target in &targets {
                let sample = tools.load(target, shape, plan);
                let sample = sample.with_context(|| format!("{}, {shape}", target.name))?;
                results.add(target.name, shape, sample);
            }
        }
    }
    Ok(results)
}

// === impl Tools ===

impl Tools<'_> {
    /// The versions of h2load and nghttpd, which are of one package.
    ///
    /// # Errors
    /// When h2load cannot be run.
    pub(crate) fn versions(&self) -> Result<String> {
        let mut command = Command::new(self.peers.root.join(H2LOAD));
        let output = command.envs(self.peers.environment()).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn start_backend(&self) -> Result<(Process, SocketAddr)> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, BACKEND_PORT));
        let directory = self.directory.join("nghttpd");
        fs::create_dir_all(&directory)?;
        fs::write(directory.join("index.html"), BACKEND_FILE)?;
        let mut arguments = ["--no-tls", "--address", "127.0.0.1", "--workers"].map(Into::into).to_vec();
        arguments.extend([self.threads.to_string().into(), "--htdocs".into()]);
        arguments.extend([directory.clone().into(), BACKEND_PORT.to_string().into()]);
        let (path, environment) = (self.peers.root.join(NGHTTPD), self.peers.environment());
        let program = Program { path, arguments, environment, log: directory.join("log") };
        let mut process = Process::start(program)?;
        process.wait_for_listening(address)?;
        Ok((process, address))
    }

    /// A proxy may listen before it has a connection to the backend.
    fn wait_for_response(&self, address: SocketAddr) -> Result<()> {
        for _ in 0..FIRST_RESPONSE_ATTEMPTS {
            if load::succeeds_once(self.peers, address)? {
                return Ok(());
            }
            std::thread::sleep(FIRST_RESPONSE_PAUSE);
        }
        ensure!(false, "no response with status 200");
        Ok(())
    }

    /// The CPU time is that of the whole run, so h2load's own warm-up, which it does not count,
    /// cannot be used.
    fn load(&self, target: &Target, shape: Shape, plan: &MeasurementPlan) -> Result<Sample> {
        let run = |duration| load::saturate(self.peers, target.address, shape, self.threads, duration);
        run(plan.warm_up)?;
        let before = CpuTime::of(&target.processes)?;
        let outcome = run(plan.duration)?;
        let used = CpuTime::of(&target.processes)?.since(&before);
        ensure!(outcome.succeeded > 0, "no request succeeded");
        if outcome.failed > 0 {
            eprintln!("{}, {shape}: {} requests failed", target.name, outcome.failed);
        }
        let cpu = used.total.as_secs_f64() / outcome.succeeded as f64;
        Ok(Sample { rate: outcome.rate, cpu, failed: outcome.failed })
    }
}
