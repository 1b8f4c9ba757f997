//! ProcessMonitor: memory and open files of a proxy from `/proc`, requests from its metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use bench_proxies::memory;

/// The monitored process.
pub(super) struct ProcessMonitor {
    pub(super) process: u32,
    /// Address of `/metrics`.
    pub(super) metrics: SocketAddr,
    /// Name of the metric of requests in flight, if the process has one.
    pub(super) in_flight: Option<&'static str>,
    /// Name of the metric of queued requests.
    pub(super) queued: &'static str,
}

/// Resources of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessSnapshot {
    pub(super) memory: MemoryRange,
    /// Open files, nearly all of them sockets.
    pub(super) files: usize,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
}

/// Resident bytes over some time. Buffers for slow readers come and go, so a leak raises the
/// minimum.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryRange {
    pub(super) least: u64,
    pub(super) most: u64,
}

const MEMORY_INTERVAL: Duration = Duration::from_millis(100);

// === impl ProcessMonitor ===

impl ProcessMonitor {
    /// Samples the memory during `run`, and everything else at its end.
    ///
    /// # Errors
    /// When the run fails, or the process has ended or does not respond.
    pub(super) fn during<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<(T, ProcessSnapshot)> {
        let over = AtomicBool::new(false);
        let (outcome, memory) = thread::scope(|scope| {
            let sampling = scope.spawn(|| self.memory_until(&over));
            let outcome = run();
            over.store(true, Ordering::Relaxed);
            (outcome, sampling.join())
        });
        let Ok(memory) = memory else { bail!("the sampling thread panicked") };
        Ok((outcome?, ProcessSnapshot { memory: memory?, ..self.snapshot()? }))
    }

    fn memory_until(&self, over: &AtomicBool) -> Result<MemoryRange> {
        let mut range = MemoryRange { least: u64::MAX, most: 0 };
        loop {
            let now = memory::resident(&[self.process])?;
            range = MemoryRange { least: range.least.min(now), most: range.most.max(now) };
            if over.load(Ordering::Relaxed) {
                return Ok(range);
            }
            thread::sleep(MEMORY_INTERVAL);
        }
    }

    /// Reads everything once.
    ///
    /// # Errors
    /// When the process has ended or does not respond.
    pub(super) fn snapshot(&self) -> Result<ProcessSnapshot> {
        let files = format!("/proc/{}/fd", self.process);
        let metrics = self.read_metrics().context("/metrics")?;
        let memory = memory::resident(&[self.process])?;
        Ok(ProcessSnapshot {
            memory: MemoryRange { least: memory, most: memory },
            files: fs::read_dir(&files).context(files)?.count(),
            in_flight: self.in_flight.map_or(Ok(0), |name| metric(&metrics, name))?,
            queued: metric(&metrics, self.queued)?,
        })
    }

    fn read_metrics(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.metrics)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    }
}

fn metric(metrics: &str, name: &str) -> Result<u64> {
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '{'])?.split(' ').next_back());
    value
        .and_then(|value| value.trim().parse().ok())
        .with_context(|| format!("no metric {name} in {metrics}"))
}
