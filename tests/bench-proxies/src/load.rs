//! The load: requests over a fixed number of kept-alive connections, one at a time on each.
//!
//! Saturating, each connection sends again as soon as it was answered, and latency counts from the sending. At a rate, requests
//! are due at even intervals whatever the answers do, wait for a connection if none is free, and latency counts from when
//! they were *due*: a proxy that stalls is charged for all that should have been sent meanwhile, not for one request.

mod connection;
mod pace;
mod tally;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::connection::{Connection, Received};
use self::pace::Schedule;
use crate::clock;
use crate::poller::Poller;

pub(crate) use self::pace::Pace;
pub(crate) use self::tally::Tally;

/// Longest wait for answers after the last request was due.
const DRAIN: Duration = Duration::from_secs(1);
/// Failed requests after which a run is given up: something is broken, and its figures would mean nothing.
const TOO_MANY_FAILURES: u64 = 1000;

/// Open connections to one address.
pub(crate) struct Generator {
    workers: Vec<Worker>,
}

/// One thread's share of them.
struct Worker {
    poller: Poller,
    target: SocketAddr,
    connections: Vec<Connection>,
    /// Connections that wait for a request to send, the one that waited longest first.
    free: VecDeque<usize>,
    buffer: Vec<u8>,
}

// === impl Generator ===

impl Generator {
    /// Opens `connections`, shared by up to `threads` threads.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub(crate) fn connect(target: SocketAddr, connections: usize, threads: usize) -> Result<Self> {
        let threads = threads.clamp(1, connections.max(1));
        let share = |thread| (connections + thread) / threads;
        let workers =
            (0..threads).map(|thread| Worker::connect(target, share(thread))).collect::<Result<_>>()?;
        Ok(Self { workers })
    }

    /// Sends for so long, and waits for what is still to be answered then.
    ///
    /// # Errors
    /// When connections fail time and again.
    pub(crate) fn run(&mut self, pace: Pace, duration: Duration) -> Result<Tally> {
        let schedule = Schedule::new(pace, clock::now(), duration);
        let threads = u64::try_from(self.workers.len())?;
        thread::scope(|scope| {
            let mut running = Vec::new();
            for (nth, worker) in (0..).zip(&mut self.workers) {
                let share = schedule.share(nth, threads);
                running.push(scope.spawn(move || worker.run(share)));
            }
            let mut sum = Tally::new(schedule.start)?;
            for worker in running {
                let Ok(tally) = worker.join() else { bail!("a load thread panicked") };
                sum.add(&tally?)?;
            }
            Ok(sum)
        })
    }
}

// === impl Worker ===

impl Worker {
    fn connect(target: SocketAddr, connections: usize) -> Result<Self> {
        let poller = Poller::new()?;
        let opened = (0..).take(connections).map(|number| open(&poller, target, number));
        let connections: Vec<_> = opened.collect::<Result<_>>()?;
        Ok(Self {
            poller,
            target,
            free: (0..connections.len()).collect(),
            connections,
            buffer: vec![0; 16 * 1024],
        })
    }

    fn run(&mut self, mut schedule: Schedule) -> Result<Tally> {
        // Otherwise the kernel lets every wait run 50 µs over.
        rustix::thread::set_current_timer_slack(NonZero::new(1)).context("cannot ask for exact timers")?;
        let mut tally = Tally::new(schedule.start)?;
        loop {
            let now = clock::now();
            self.send_due(&mut schedule, now, &mut tally)?;
            let idle = self.free.len() == self.connections.len();
            if (schedule.is_over(now) && idle) || now > schedule.end + DRAIN {
                break;
            }
            self.poller.wait(Some(self.timeout(&schedule, now)))?;
            let mut nth = 0;
            while let Some(number) = self.poller.ready(nth) {
                nth += 1;
                self.receive(usize::try_from(number)?, &mut schedule, &mut tally)?;
            }
        }
        self.give_up(&mut schedule, &mut tally)?;
        Ok(tally)
    }

    fn timeout(&self, schedule: &Schedule, now: Instant) -> Duration {
        let until = match schedule.next_due() {
            Some(due) if !self.free.is_empty() => due,
            _ => schedule.end + DRAIN,
        };
        until.saturating_duration_since(now)
    }

    fn send_due(&mut self, schedule: &mut Schedule, now: Instant, tally: &mut Tally) -> Result<()> {
        while let Some(&number) = self.free.front()
            && let Some(due) = schedule.take(now)
        {
            self.free.pop_front();
            let Some(connection) = self.connections.get_mut(number) else { continue };
            if connection.send(due).is_err() {
                self.replace(number, tally)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, number: usize, schedule: &mut Schedule, tally: &mut Tally) -> Result<()> {
        let Some(connection) = self.connections.get_mut(number) else { return Ok(()) };
        match connection.receive(&mut self.buffer) {
            Received::Part => return Ok(()),
            Received::Answer { due, status } => {
                let now = clock::now();
                tally.answered(due, now, status);
                self.free.push_back(number);
                self.send_due(schedule, now, tally)?;
            }
            Received::End => self.replace(number, tally)?,
        }
        self.ensure_it_works(tally)
    }

    fn ensure_it_works(&self, tally: &Tally) -> Result<()> {
        let Tally { failed, last_failure, .. } = tally;
        let target = self.target;
        ensure!(
            *failed < TOO_MANY_FAILURES,
            "{failed} requests to {target} failed, the last with {last_failure}"
        );
        Ok(())
    }

    /// Opens a closed connection anew; a request that was on it has failed.
    fn replace(&mut self, number: usize, tally: &mut Tally) -> Result<()> {
        let Some(connection) = self.connections.get_mut(number) else { return Ok(()) };
        if connection.due().is_some() {
            tally.fail("a closed connection");
            self.free.push_back(number);
        }
        *connection = open(&self.poller, self.target, u64::try_from(number)?)?;
        self.ensure_it_works(tally)
    }

    /// Whatever has no answer by now took at least until now.
    fn give_up(&mut self, schedule: &mut Schedule, tally: &mut Tally) -> Result<()> {
        let now = clock::now();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            if let Some(due) = connection.due() {
                tally.unanswered(due, now);
                *connection = open(&self.poller, self.target, u64::try_from(number)?)?;
                self.free.push_back(number);
            }
        }
        while let Pace::PerSecond(_) = schedule.pace
            && let Some(due) = schedule.take(now)
        {
            tally.unanswered(due, now);
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
    use crate::backend;

    fn run(pace: Pace, connections: usize, threads: usize) -> Tally {
        let target = backend::start(1).unwrap();
        let mut generator = Generator::connect(target, connections, threads).unwrap();
        generator.run(pace, Duration::from_millis(100)).unwrap()
    }

    #[test]
    fn every_request_is_answered_and_counted() {
        let tally = run(Pace::Saturating, 5, 2);
        assert!(tally.answered > 5, "{tally:?}");
        assert_eq!((tally.failed, tally.unanswered), (0, 0));
        assert_eq!(tally.latencies.len(), tally.answered);
    }

    #[test]
    fn a_rate_is_kept_to_the_request() {
        let tally = run(Pace::PerSecond(500.0), 3, 2);
        assert_eq!((tally.answered, tally.failed, tally.unanswered), (50, 0, 0));
    }

    #[test]
    fn a_server_that_never_answers_is_charged_for_what_was_due() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut generator = Generator::connect(listener.local_addr().unwrap(), 1, 1).unwrap();
        let tally = generator.run(Pace::PerSecond(100.0), Duration::from_millis(100)).unwrap();
        assert_eq!((tally.answered, tally.unanswered), (0, 10));
        assert!(tally.quantile(0.0) >= DRAIN);
    }
}
