//! The time of the windows: Unix time that never steps.
//!
//! Wall time can jump back; a window would then refuse every write until the time it has seen comes round again. So the
//! wall is read once, and from there the monotonic clock goes on. What leaves the process is put back on today's wall.

use std::time::Duration;

use tokio::time::Instant;

/// Unix time anchored at the start of the process. Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Duration,
    started: Instant,
}

// === impl Clock ===

impl Default for Clock {
    fn default() -> Self {
        Self { wall: runtime::clock::since_epoch(), started: Instant::now() }
    }
}

impl Clock {
    /// Unix time by this clock.
    pub fn now(&self) -> Duration {
        self.wall + self.started.elapsed()
    }

    /// The instant at which this clock shows, or showed, a time since its start.
    pub fn instant(&self, time: Duration) -> Instant {
        self.started + time.saturating_sub(self.wall)
    }

    /// A time of this clock as Unix milliseconds by the wall.
    pub fn unix_millis(&self, time: Duration) -> i64 {
        let age = self.now().saturating_sub(time);
        runtime::clock::unix_millis() - i64::try_from(age.as_millis()).unwrap_or(0)
    }

    /// The second a report belongs to, by the sender's word if that can be.
    ///
    /// Senders stamp whole seconds, so that each report has a second of its own however it travelled. A sender whose clock
    /// is off would write into the past or lock the window's future: then the time of receipt counts.
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
    async fn believes_stamps_that_are_near() {
        let clock = Clock::default();
        let now = clock.now();
        let second = i64::try_from(now.as_secs()).unwrap();
        assert_eq!(clock.second_of(second - 3), Duration::from_secs(now.as_secs() - 3));
        assert_eq!(clock.second_of(second + 1), Duration::from_secs(now.as_secs() + 1));
        for off in [0, -1, second - 60, second + 3600, i64::MAX] {
            assert_eq!(clock.second_of(off), now, "{off}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn times_and_instants_translate() {
        let clock = Clock::default();
        let later = clock.now() + Duration::from_secs(5);
        tokio::time::sleep_until(clock.instant(later)).await;
        assert!(clock.now() >= later);
        assert!((clock.unix_millis(clock.now()) - runtime::clock::unix_millis()).abs() < 1000);
    }
}
