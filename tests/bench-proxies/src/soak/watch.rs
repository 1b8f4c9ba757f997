//! What a process of queue-proxy holds: memory and files by `/proc`, requests by its own metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result};

use crate::memory;

/// Where to look.
pub(super) struct Watched {
    pub(super) process: u32,
    pub(super) stats: SocketAddr,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Bytes resident.
    pub(super) memory: u64,
    /// Open files, sockets nearly all of them.
    pub(super) files: usize,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
}

// === impl Watched ===

impl Watched {
    /// # Errors
    /// When the process is gone or does not answer.
    pub(super) fn look(&self) -> Result<Held> {
        let files = format!("/proc/{}/fd", self.process);
        let metrics = self.metrics().context("/metrics")?;
        Ok(Held {
            memory: memory::resident(&[self.process])?,
            files: fs::read_dir(&files).context(files)?.count(),
            in_flight: metric(&metrics, "rouse_queue_proxy_requests_in_flight")?,
            queued: metric(&metrics, "rouse_queue_proxy_queue_depth")?,
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
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).with_context(|| format!("no {name} in {metrics}"))
}
