//! What a process of ours holds: memory and files by `/proc`, requests by its own metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::memory;

/// Where to look.
pub(super) struct Watched {
    pub(super) process: u32,
    pub(super) stats: SocketAddr,
    /// Metrics of requests that have not ended, if there is one, and that wait.
    pub(super) in_flight: Option<&'static str>,
    pub(super) queued: &'static str,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Bytes resident, now or over some time.
    pub(super) memory: Memory,
    /// Open files, sockets nearly all of them.
    pub(super) files: usize,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
}

/// What slow readers make the process hold comes and goes; a leak is what stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) least: u64,
    pub(super) most: u64,
}

const MEMORY_IS_READ: Duration = Duration::from_millis(100);

// === impl Watched ===

impl Watched {
    /// Runs something, and looks at the memory all the while and at everything else at the end.
    ///
    /// # Errors
    /// When the run fails, or the process is gone or does not answer.
    pub(super) fn during<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<(T, Held)> {
        let over = AtomicBool::new(false);
        let (outcome, memory) = thread::scope(|scope| {
            let watching = scope.spawn(|| self.memory_until(&over));
            let outcome = run();
            over.store(true, Ordering::Relaxed);
            (outcome, watching.join())
        });
        let Ok(memory) = memory else { bail!("the watching thread panicked") };
        Ok((outcome?, Held { memory: memory?, ..self.look()? }))
    }

    fn memory_until(&self, over: &AtomicBool) -> Result<Memory> {
        let mut seen = Memory { least: u64::MAX, most: 0 };
        loop {
            let now = memory::resident(&[self.process])?;
            seen = Memory { least: seen.least.min(now), most: seen.most.max(now) };
            if over.load(Ordering::Relaxed) {
                return Ok(seen);
            }
            thread::sleep(MEMORY_IS_READ);
        }
    }

    /// # Errors
    /// When the process is gone or does not answer.
    pub(super) fn look(&self) -> Result<Held> {
        let files = format!("/proc/{}/fd", self.process);
        let metrics = self.metrics().context("/metrics")?;
        let memory = memory::resident(&[self.process])?;
        Ok(Held {
            memory: Memory { least: memory, most: memory },
            files: fs::read_dir(&files).context(files)?.count(),
            in_flight: self.in_flight.map_or(Ok(0), |name| metric(&metrics, name))?,
            queued: metric(&metrics, self.queued)?,
        })
    }

    fn metrics(&self) -> Result<String> {
        let mut stream = TcpStream::connect(self.stats)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn metric(metrics: &str, name: &str) -> Result<u64> {
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '{'])?.split(' ').next_back());
    value.and_then(|value| value.trim().parse().ok()).with_context(|| format!("no {name} in {metrics}"))
}
