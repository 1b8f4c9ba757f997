//! Schedule: the due times of a run's requests.

use std::time::{Duration, Instant};

/// How fast the generator sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RequestRate {
    /// The next request of a connection follows the last response at once.
    Saturating,
    /// Requests per second at even intervals, independent of responses.
    PerSecond(f64),
}

/// The requests due from `start` until `end`, or one thread's share of them.
pub(super) struct Schedule {
    pub(super) rate: RequestRate,
    pub(super) start: Instant,
    pub(super) end: Instant,
    /// Number of the next request, counted over all threads.
    next: u64,
    /// Threads that share the requests round-robin.
    threads: u64,
}

// === impl Schedule ===

impl Schedule {
    pub(super) fn new(rate: RequestRate, start: Instant, duration: Duration) -> Self {
        Self { rate, start, end: start + duration, next: 0, threads: 1 }
    }

    /// The share of the `nth` of so many threads.
    pub(super) fn share(&self, nth: u64, threads: u64) -> Self {
        Self { next: nth, threads, ..*self }
    }

    /// Due time of the next request; `None` after the last.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let RequestRate::PerSecond(rate) = self.rate else { return None };
        let due = self.start + Duration::try_from_secs_f64(self.next as f64 / rate).ok()?;
        (due < self.end).then_some(due)
    }

    /// Takes a request that is due by now, and returns its due time.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = match self.rate {
            RequestRate::Saturating => Some(now).filter(|now| *now < self.end),
            RequestRate::PerSecond(_) => self.next_due().filter(|due| *due <= now),
        }?;
        self.next += self.threads;
        Some(due)
    }

    /// Whether no request is due from now on.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.end && self.next_due().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_proxies::clock;

    const SECOND: Duration = Duration::from_secs(1);

    fn all_due(mut schedule: Schedule, now: Instant) -> Vec<Duration> {
        let start = schedule.start;
        std::iter::from_fn(|| schedule.take(now)).map(|due| due - start).collect()
    }

    #[test]
    fn returns_all_requests_due_since_the_last_call() {
        let schedule = Schedule::new(RequestRate::PerSecond(4.0), clock::now(), SECOND);
        let quarters = [0, 250, 500, 750].map(Duration::from_millis);
        assert_eq!(all_due(schedule.share(0, 1), schedule.start + SECOND / 2), quarters[..3]);
        assert_eq!(all_due(schedule.share(0, 1), schedule.start + 9 * SECOND), quarters);
    }

    #[test]
    fn splits_requests_round_robin_between_threads() {
        let schedule = Schedule::new(RequestRate::PerSecond(4.0), clock::now(), SECOND);
        let late = schedule.end;
        assert_eq!(all_due(schedule.share(1, 2), late), [250, 750].map(Duration::from_millis));
        assert_eq!(all_due(schedule.share(2, 3), late), [500].map(Duration::from_millis));
    }

    #[test]
    fn saturating_schedule_always_has_a_due_request_until_the_end() {
        let mut schedule = Schedule::new(RequestRate::Saturating, clock::now(), SECOND);
        let (start, end) = (schedule.start, schedule.end);
        assert_eq!(schedule.take(start), Some(start));
        assert!(!schedule.is_over(start));
        assert_eq!(schedule.take(end), None);
        assert!(schedule.is_over(end));
    }
}
