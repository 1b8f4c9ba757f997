//! Processor sharing: all requests in the CPU phase progress at the same speed.
//!
//! The clock of the processor counts the CPU time that each request has got. A request ends when
//! that clock reaches its start plus its CPU time, so a change of speed moves no other entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::clock::Time;
use crate::workload::request::Request;

/// Requests that share the cores of a container.
#[derive(Debug, Default)]
pub struct ProcessorSharing {
    /// CPU nanoseconds that a request would have got which runs since the start.
    clock: f64,
    updated_at: Time,
    jobs: BinaryHeap<Reverse<Job>>,
    /// CPU seconds since [`take_usage`](Self::take_usage).
    used: f64,
    /// Increases with each change of the next end.
    version: u64,
}

#[derive(Debug)]
struct Job {
    ends_at: u64,
    request: Request,
}

/// The next end of a CPU phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NextEnd {
    /// Time from now.
    pub after: Duration,
    /// Valid as long as this is the processor's version.
    pub version: u64,
}

// === impl ProcessorSharing ===

impl ProcessorSharing {
    /// Starts a request's CPU phase.
    pub fn enter(&mut self, request: Request, cores: f64, now: Time) -> Option<NextEnd> {
        self.advance(cores, now);
        let ends_at = (self.clock + request.work.as_nanos() as f64) as u64;
        self.jobs.push(Reverse(Job { ends_at, request }));
        self.next_end(cores)
    }

    /// Ends the CPU phase of the request that is due, unless the event is of an older version.
    pub fn take_due(&mut self, version: u64, cores: f64, now: Time) -> Option<(Request, Option<NextEnd>)> {
        if version != self.version {
            return None;
        }
        self.advance(cores, now);
        let Reverse(job) = self.jobs.pop()?;
        Some((job.request, self.next_end(cores)))
    }

    /// CPU seconds that were used since the last call.
    pub fn take_usage(&mut self, cores: f64, now: Time) -> f64 {
        self.advance(cores, now);
        std::mem::take(&mut self.used)
    }

    fn advance(&mut self, cores: f64, now: Time) {
        let passed = now.saturating_sub(self.updated_at).as_nanos() as f64;
        self.updated_at = now;
        self.clock += passed * self.speed(cores);
        self.used += passed * 1e-9 * cores.min(self.jobs.len() as f64);
    }

    fn speed(&self, cores: f64) -> f64 {
        (cores / self.jobs.len().max(1) as f64).min(1.0)
    }

    fn next_end(&mut self, cores: f64) -> Option<NextEnd> {
        self.version += 1;
        let Reverse(next) = self.jobs.peek()?;
        let nanos = (next.ends_at as f64 - self.clock).max(0.0) / self.speed(cores);
        Some(NextEnd { after: Duration::from_nanos(nanos.ceil() as u64), version: self.version })
    }
}

// === impl Job ===

impl Job {
    fn key(&self) -> (u64, u64) {
        (self.ends_at, self.request.id)
    }
}

impl Ord for Job {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Job {}
