//! Generator: requests over a fixed number of keep-alive connections, one at a time on each.
//!
//! At [`RequestRate::Saturating`] each connection sends again as soon as its response is complete,
//! and latency counts from the send. At [`RequestRate::PerSecond`] requests are due at even
//! intervals and wait for a free connection; latency counts from the due time. A stalled proxy thus
//! pays for every request that was due during the stall, not for one only (coordinated omission).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use bench_proxies::clock;

use super::connection::{Connection, Received};
use super::load_stats::LoadStats;
use super::poller::Poller;
use super::schedule::{RequestRate, Schedule};

/// Longest wait for responses after the last request was due.
const DRAIN: Duration = Duration::from_secs(1);
/// Failed requests after which a run is aborted; its figures would mean nothing.
const TOO_MANY_FAILURES: u64 = 1000;

/// Open connections to one or several addresses, shared by some threads.
pub(crate) struct Generator {
    workers: Vec<Worker>,
}

/// One thread's share of the connections.
struct Worker {
    poller: Poller,
    connections: Vec<Connection>,
    /// Connections without a request in flight, longest idle first.
    free: VecDeque<usize>,
    buffer: Vec<u8>,
}

// === impl Generator ===

impl Generator {
    /// Opens `connections`, shared by up to `threads` threads.
    ///
    /// # Errors
    /// When a connection cannot be opened.
    pub(crate) fn connect(target: SocketAddr, connections: usize, threads: usize) -> Result<Self> {
        Self::connect_each(&vec![target; connections], threads)
    }

    /// Opens a connection to each of `targets`, shared by up to `threads` threads. Requests go to
    /// the connection that is idle for longest, so to all targets alike.
    ///
    /// # Errors
    /// When a connection cannot be opened.
    pub(crate) fn connect_each(targets: &[SocketAddr], threads: usize) -> Result<Self> {
        let threads = threads.clamp(1, targets.len().max(1));
        let share = |thread| targets.iter().copied().skip(thread).step_by(threads);
        let workers = (0..threads).map(|thread| Worker::connect(share(thread))).collect::<Result<_>>()?;
        Ok(Self { workers })
    }

    /// Sends for this duration, then waits for outstanding responses.
    ///
    /// # Errors
    /// When connections fail repeatedly.
    pub(crate) fn run(&mut self, rate: RequestRate, duration: Duration) -> Result<LoadStats> {
        let schedule = Schedule::new(rate, clock::now(), duration);
        let threads = u64::try_from(self.workers.len())?;
        thread::scope(|scope| {
            let mut running = Vec::new();
            for (nth, worker) in (0..).zip(&mut self.workers) {
                let share = schedule.share(nth, threads);
                running.push(scope.spawn(move || worker.run(share)));
            }
            let mut sum = LoadStats::new(schedule.start)?;
            for worker in running {
                let Ok(stats) = worker.join() else { bail!("a load thread panicked") };
                sum.add(&stats?)?;
            }
            Ok(sum)
        })
    }
}

// === impl Worker ===

impl Worker {
    fn connect(targets: impl Iterator<Item = SocketAddr>) -> Result<Self> {
        let poller = Poller::new()?;
        let opened = (0..).zip(targets).map(|(number, target)| open(&poller, target, number));
        let connections: Vec<_> = opened.collect::<Result<_>>()?;
        Ok(Self { poller, free: (0..connections.len()).collect(), connections, buffer: vec![0; 16 * 1024] })
    }

    fn run(&mut self, mut schedule: Schedule) -> Result<LoadStats> {
        // By default the kernel ends each wait up to 50 µs late.
        rustix::thread::set_current_timer_slack(NonZero::new(1)).context("cannot set the timer slack")?;
        let mut stats = LoadStats::new(schedule.start)?;
        loop {
            let now = clock::now();
            self.send_due(&mut schedule, now, &mut stats)?;
            let idle = self.free.len() == self.connections.len();
            if (schedule.is_over(now) && idle) || now > schedule.end + DRAIN {
                break;
            }
            self.poller.wait(Some(self.timeout(&schedule, now)))?;
            let mut nth = 0;
            while let Some(number) = self.poller.ready(nth) {
                nth += 1;
                self.receive(usize::try_from(number)?, &mut schedule, &mut stats)?;
            }
        }
        self.give_up(&mut schedule, &mut stats)?;
        Ok(stats)
    }

    fn timeout(&self, schedule: &Schedule, now: Instant) -> Duration {
        let until = match schedule.next_due() {
            Some(due) if !self.free.is_empty() => due,
            _ => schedule.end + DRAIN,
        };
        until.saturating_duration_since(now)
    }

    fn send_due(&mut self, schedule: &mut Schedule, now: Instant, stats: &mut LoadStats) -> Result<()> {
        while let Some(&number) = self.free.front()
            && let Some(due) = schedule.take(now)
        {
            self.free.pop_front();
            let Some(connection) = self.connections.get_mut(number) else { continue };
            if connection.send(due).is_err() {
                self.replace(number, stats)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, number: usize, schedule: &mut Schedule, stats: &mut LoadStats) -> Result<()> {
        let Some(connection) = self.connections.get_mut(number) else { return Ok(()) };
        match connection.receive(&mut self.buffer) {
            Received::Part => return Ok(()),
            Received::Response { due, status } => {
                let now = clock::now();
                stats.answered(due, now, status);
                self.free.push_back(number);
                self.send_due(schedule, now, stats)?;
            }
            Received::End => self.replace(number, stats)?,
        }
        self.ensure_few_failures(stats)
    }

    fn ensure_few_failures(&self, stats: &LoadStats) -> Result<()> {
        let LoadStats { failed, last_failure, .. } = stats;
        ensure!(*failed < TOO_MANY_FAILURES, "{failed} requests failed, the last with {last_failure}");
        Ok(())
    }

    /// Reopens a closed connection and counts its request, if any, as failed.
    fn replace(&mut self, number: usize, stats: &mut LoadStats) -> Result<()> {
        let Some(connection) = self.connections.get_mut(number) else { return Ok(()) };
        if connection.due().is_some() {
            stats.fail("a closed connection");
            self.free.push_back(number);
        }
        *connection = open(&self.poller, connection.target(), u64::try_from(number)?)?;
        self.ensure_few_failures(stats)
    }

    /// Counts requests without a response as unanswered, with a latency up to now.
    fn give_up(&mut self, schedule: &mut Schedule, stats: &mut LoadStats) -> Result<()> {
        let now = clock::now();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            if let Some(due) = connection.due() {
                stats.unanswered(due, now);
                *connection = open(&self.poller, connection.target(), u64::try_from(number)?)?;
                self.free.push_back(number);
            }
        }
        while let RequestRate::PerSecond(_) = schedule.rate
            && let Some(due) = schedule.take(now)
        {
            stats.unanswered(due, now);
        }
        Ok(())
    }
}

fn open(poller: &Poller, target: SocketAddr, number: u64) -> Result<Connection> {
    let connection = Connection::open(target).with_context(|| format!("cannot connect to {target}"))?;
    poller.watch(connection.socket(), number)?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::backend;

    fn run(rate: RequestRate, connections: usize, threads: usize) -> LoadStats {
        let target = backend::start(1).unwrap();
        let mut generator = Generator::connect(target, connections, threads).unwrap();
        generator.run(rate, Duration::from_millis(100)).unwrap()
    }

    #[test]
    fn counts_every_answered_request() {
        let stats = run(RequestRate::Saturating, 5, 2);
        assert!(stats.answered > 5, "{stats:?}");
        assert_eq!((stats.failed, stats.unanswered), (0, 0));
        assert_eq!(stats.latencies.len(), stats.answered);
    }

    #[test]
    fn sends_exactly_the_requested_rate() {
        let stats = run(RequestRate::PerSecond(500.0), 3, 2);
        assert_eq!((stats.answered, stats.failed, stats.unanswered), (50, 0, 0));
    }

    #[test]
    fn sends_to_all_targets_alike() {
        let targets = [backend::start(1).unwrap(), backend::start(1).unwrap()];
        let mut generator = Generator::connect_each(&targets, 2).unwrap();
        let stats = generator.run(RequestRate::PerSecond(200.0), Duration::from_millis(100)).unwrap();
        assert_eq!((stats.answered, stats.failed, stats.unanswered), (20, 0, 0));
    }

    #[test]
    fn counts_all_due_requests_of_a_silent_server_as_unanswered() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut generator = Generator::connect(listener.local_addr().unwrap(), 1, 1).unwrap();
        let stats = generator.run(RequestRate::PerSecond(100.0), Duration::from_millis(100)).unwrap();
        assert_eq!((stats.answered, stats.unanswered), (0, 10));
        assert!(stats.quantile(0.0) >= DRAIN);
    }
}
