//! Limits how often a field is written that another program overwrites.
//!
//! Two programs that each restore their own value at once would write without end, each as fast as
//! the API server. The first restoration is immediate, because manifests that a user applies
//! again overwrite a field just once.

use std::time::Duration;

use component_base::retry::delay_after;
use tokio::time::Instant;

/// Delay before the second restoration; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay, and so the time until the field is right after the other program has ended.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// A value that stays for so long is not overwritten any more. Above the longest delay.
const SETTLED: Duration = Duration::from_secs(180);
/// From so many successive writes on, another program overwrites the field repeatedly.
const CONTESTED: u32 = 4;

/// The successive writes of one value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WritePace {
    writes: u32,
    last: Option<Instant>,
}

// === impl WritePace ===

impl WritePace {
    /// When the next write may be sent; `None` is at once.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let delayed = self.recent(now).checked_sub(2)?;
        let delay = delay_after(delayed, FIRST_DELAY, LONGEST_DELAY);
        self.last.map(|last| last + delay).filter(|due| *due > now)
    }

    /// Whether the value was overwritten after each of several writes.
    pub(crate) fn is_contested(&self, now: Instant) -> bool {
        self.recent(now) >= CONTESTED
    }

    /// Counts a write.
    pub(crate) fn record(&mut self, now: Instant) {
        *self = Self { writes: self.recent(now).saturating_add(1), last: Some(now) };
    }

    fn recent(&self, now: Instant) -> u32 {
        let is_recent = self.last.is_some_and(|last| now.duration_since(last) < SETTLED);
        if is_recent { self.writes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_a_minute_and_starts_again_once_the_value_stays() {
        let start = Instant::now();
        let mut pace = WritePace::default();
        let mut now = start;
        let delays: Vec<_> = (0..10)
            .map(|_| {
                let due = pace.due(now).unwrap_or(now);
                let delay = due.duration_since(now).as_secs();
                now = due;
                pace.record(now);
                delay
            })
            .collect();
        assert_eq!(delays, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(pace.is_contested(now));
        now += SETTLED;
        assert_eq!((pace.due(now), pace.is_contested(now)), (None, false));
    }

    #[test]
    fn any_number_of_writes_has_a_delay() {
        let now = Instant::now();
        for writes in [2, 40, u32::MAX] {
            let pace = WritePace { writes, last: Some(now) };
            assert!(pace.due(now).is_some_and(|due| due <= now + LONGEST_DELAY), "{writes}");
        }
    }
}
