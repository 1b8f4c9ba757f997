//! When requests are due.

use std::time::{Duration, Instant};

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// The next request on a connection as soon as the last one was answered.
    Saturating,
    /// So many a second at even intervals, whatever the answers do.
    PerSecond(f64),
}

/// What is due from `start` until `end`, or one thread's share of it.
pub(super) struct Schedule {
    pub(super) pace: Pace,
    pub(super) start: Instant,
    pub(super) end: Instant,
    /// Number of the next request, among those of all threads.
    next: u64,
    /// Threads that take turns.
    threads: u64,
}

// === impl Schedule ===

impl Schedule {
    pub(super) fn new(pace: Pace, start: Instant, duration: Duration) -> Self {
        Self { pace, start, end: start + duration, next: 0, threads: 1 }
    }

    /// The requests whose turn is that of the `nth` of so many threads.
    pub(super) fn share(&self, nth: u64, threads: u64) -> Self {
        Self { next: nth, threads, ..*self }
    }

    /// When the next request is due; `None` after the last.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let Pace::PerSecond(rate) = self.pace else { return None };
        let due = self.start + Duration::try_from_secs_f64(self.next as f64 / rate).ok()?;
        (due < self.end).then_some(due)
    }

    /// Takes a request that is due by now.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = match self.pace {
            Pace::Saturating => Some(now).filter(|now| *now < self.end),
            Pace::PerSecond(_) => self.next_due().filter(|due| *due <= now),
        }?;
        self.next += self.threads;
        Some(due)
    }

    /// Whether nothing will be due any more.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.end && self.next_due().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const SECOND: Duration = Duration::from_secs(1);

    fn all_due(mut schedule: Schedule, now: Instant) -> Vec<Duration> {
        let start = schedule.start;
        std::iter::from_fn(|| schedule.take(now)).map(|due| due - start).collect()
    }

    #[test]
    fn a_late_look_finds_all_that_was_due_meanwhile() {
        let schedule = Schedule::new(Pace::PerSecond(4.0), clock::now(), SECOND);
        let quarters = [0, 250, 500, 750].map(Duration::from_millis);
        assert_eq!(all_due(schedule.share(0, 1), schedule.start + SECOND / 2), quarters[..3]);
        assert_eq!(all_due(schedule.share(0, 1), schedule.start + 9 * SECOND), quarters);
    }

    #[test]
    fn threads_take_turns() {
        let schedule = Schedule::new(Pace::PerSecond(4.0), clock::now(), SECOND);
        let late = schedule.end;
        assert_eq!(all_due(schedule.share(1, 2), late), [250, 750].map(Duration::from_millis));
        assert_eq!(all_due(schedule.share(2, 3), late), [500].map(Duration::from_millis));
    }

    #[test]
    fn saturating_there_is_always_one_due_until_the_end() {
        let mut schedule = Schedule::new(Pace::Saturating, clock::now(), SECOND);
        let (start, end) = (schedule.start, schedule.end);
        assert_eq!(schedule.take(start), Some(start));
        assert!(!schedule.is_over(start));
        assert_eq!(schedule.take(end), None);
        assert!(schedule.is_over(end));
    }
}
