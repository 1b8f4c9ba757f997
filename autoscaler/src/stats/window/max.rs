//! The maximum of the values of the last slots of time.
//!
//! Used for the decider's scale-down delay: a smaller decision takes effect once every larger one
//! has left the window. The window is a queue of falling values. Each value is pushed and popped
//! once, so the cost does not grow with the length of the window.

use std::collections::VecDeque;
use std::time::Duration;

/// Sliding maximum.
#[derive(Clone, Debug)]
pub struct MaxWindow {
    /// Slots after which a value expires.
    slots: u64,
    /// Seconds in a slot.
    granularity: u64,
    /// (slot, value), oldest and largest first. At most `slots` entries, and at most the largest
    /// value plus one, because each value is smaller than the one before.
    falling: VecDeque<(u64, u32)>,
}

// === impl MaxWindow ===

impl MaxWindow {
    /// A window of `length`, rounded up to whole slots of `granularity` (whole seconds).
    pub fn new(length: Duration, granularity: Duration) -> Self {
        let granularity = granularity.as_secs().max(1);
        Self { slots: length.as_secs().div_ceil(granularity).max(1), granularity, falling: VecDeque::new() }
    }

    /// Adds `value` and returns the maximum, `value` included.
    ///
    /// A time before the newest one counts as the newest: a clock step back must not restore old
    /// values.
    pub fn record(&mut self, now: Duration, value: u32) -> u32 {
        let newest = self.falling.back().map_or(0, |&(slot, _)| slot);
        let slot = (now.as_secs() / self.granularity).max(newest);
        while self.falling.pop_front_if(|&mut (old, _)| slot - old >= self.slots).is_some() {}
        if self.falling.back().is_none_or(|&(last, kept)| last != slot || kept < value) {
            while self.falling.pop_back_if(|&mut (_, smaller)| smaller <= value).is_some() {}
            self.falling.push_back((slot, value));
        }
        self.falling.front().map_or(value, |&(_, largest)| largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maxima(values: &[u32]) -> Vec<u32> {
        let mut window = MaxWindow::new(Duration::from_secs(5), Duration::from_secs(1));
        (1_600_000_000..).zip(values).map(|(t, &v)| window.record(Duration::from_secs(t), v)).collect()
    }

    /// Knative aggregation/max/window_test.go, TestDescendingWindow and TestWindow.
    #[test]
    fn maximum_lasts_for_the_window() {
        assert_eq!(maxima(&[5, 6, 5, 5, 5, 5, 5]), [5, 6, 6, 6, 6, 6, 5]); // M1
        assert_eq!(
            // M2
            maxima(&[5, 8, 5, 7, 5, 5, 1, 4, 4, 4, 4, 9, 3, 4, 2, 1, 0]),
            [5, 8, 8, 8, 8, 8, 7, 7, 5, 5, 4, 9, 9, 9, 9, 9, 4]
        );
    }

    /// Knative aggregation/max/timewindow_test.go: a slot keeps the largest value. Whether an equal
    /// value is pushed again makes no difference (a surviving mutant), because it replaces itself.
    #[test]
    fn slot_keeps_its_largest_value() {
        let mut window = MaxWindow::new(Duration::from_secs(10), Duration::from_secs(2));
        let at = Duration::from_secs(1_600_000_000);
        assert_eq!([7, 3, 6].map(|value| window.record(at, value)), [7, 7, 7]); // M3
    }

    #[test]
    fn time_before_the_newest_counts_as_the_newest() {
        let mut window = MaxWindow::new(Duration::from_secs(10), Duration::from_secs(2));
        window.record(Duration::from_secs(1_600_000_000), 4);
        assert_eq!(window.record(Duration::from_secs(5), 9), 9);
        assert_eq!(window.record(Duration::from_secs(1_600_000_008), 0), 9);
        assert_eq!(window.record(Duration::from_secs(1_600_000_010), 0), 0);
    }
}
