//! WindowClock: the time of the windows, which is Unix time that never steps.
//!
//! Wall time can jump back, and a window would then refuse every write until it has caught up. So
//! the wall clock is read once, at the start, and the monotonic clock counts from there. Timestamps
//! that leave the process are converted to the current wall clock.
//!
//! It counts whole milliseconds, as recorded loads do: a replay then compares the same instants as
//! the decider did, also where two decisions are exactly one window apart.

use std::time::Duration;

use tokio::time::Instant;

/// Unix time anchored at the start of the process. Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct WindowClock {
    wall_clock: fn() -> Duration,
    wall: Duration,
    started: Instant,
}

// === impl WindowClock ===

impl Default for WindowClock {
    fn default() -> Self {
        Self::by(component_base::clock::since_epoch)
    }
}

impl WindowClock {
    /// A clock that begins now, by the Unix time of `wall_clock`.
    pub fn by(wall_clock: fn() -> Duration) -> Self {
        Self { wall_clock, wall: wall_clock(), started: Instant::now() }
    }

    /// The current time of this clock, in whole milliseconds.
    pub fn now(&self) -> Duration {
        let now = self.wall + self.started.elapsed();
        now - Duration::from_nanos(u64::from(now.subsec_nanos()) % 1_000_000)
    }

    /// The instant that corresponds to a time of this clock.
    pub fn instant(&self, time: Duration) -> Instant {
        self.started + time.saturating_sub(self.wall)
    }

    /// A time of this clock as Unix milliseconds of the wall clock.
    pub fn unix_millis(&self, time: Duration) -> i64 {
        let age = self.now().saturating_sub(time);
        let at = (self.wall_clock)().saturating_sub(age);
        i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
    }

    /// The second to record a report in: the sender's timestamp, if it is near the current time.
    ///
    /// Senders stamp whole seconds, so each report has a second of its own, however long it
    /// travelled. A sender whose clock is off would write into the past or block the window's
    /// future, so its reports are recorded at the time of receipt.
    pub fn second_of(&self, stamped: i64) -> Duration {
        const EARLY: Duration = Duration::from_secs(2);
        const LATE: Duration = Duration::from_secs(10);
        let now = self.now();
        let stamped = u64::try_from(stamped).map(Duration::from_secs).unwrap_or_default();
        if stamped > now + EARLY || stamped + LATE < now { now } else { stamped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn accepts_timestamps_near_the_current_time_only() {
        let clock = WindowClock::default();
        let now = clock.now();
        let second = i64::try_from(now.as_secs()).unwrap();
        assert_eq!(clock.second_of(second - 3), Duration::from_secs(now.as_secs() - 3));
        assert_eq!(clock.second_of(second + 1), Duration::from_secs(now.as_secs() + 1));
        for off in [0, -1, second - 60, second + 3600, i64::MAX] {
            assert_eq!(clock.second_of(off), now, "{off}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn counts_whole_milliseconds() {
        let clock = WindowClock::default();
        for _ in 0..5 {
            tokio::time::advance(Duration::from_micros(300)).await;
            assert_eq!(clock.now(), Duration::from_millis(clock.now().as_millis().try_into().unwrap()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn converts_times_to_instants_and_wall_clock() {
        let clock = WindowClock::default();
        let later = clock.now() + Duration::from_secs(5);
        tokio::time::sleep_until(clock.instant(later)).await;
        assert!(clock.now() >= later);
        assert!((clock.unix_millis(clock.now()) - component_base::clock::unix_millis()).abs() < 1000);
    }
}
