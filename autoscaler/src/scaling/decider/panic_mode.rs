//! PanicMode: whether a burst is on, and the most pods wanted since it began.
//!
//! ```text
//!              over the threshold                     over: the time starts anew
//!   calm ───────────────────────────► panicking ──┐
//!     ▲                                   │   ▲───┘
//!     └───────────────────────────────────┘
//!        not over for longer than the stable window
//! ```
//!
//! While it lasts the decision never falls: the pods that the burst asked for are still starting.

use std::time::Duration;

/// Panic state of one workload.
#[derive(Clone, Copy, Debug)]
pub struct PanicMode {
    /// When the threshold was last exceeded; `None` is calm.
    since: Option<Duration>,
    /// Most pods decided on while panicking.
    high_water: u32,
}

// === impl PanicMode ===

impl PanicMode {
    /// With more than one pod ready a new decider starts in panic: it has no history, and must not take pods away from a
    /// load that it has not seen yet.
    pub fn starting_with(ready: u32, now: Duration) -> Self {
        Self { since: (ready > 1).then_some(now), high_water: ready }
    }

    /// As [`starting_with`](Self::starting_with), on top of what is known already.
    pub fn take_over(&mut self, ready: u32, now: Duration) {
        let fresh = Self::starting_with(ready, now);
        self.since = self.since.max(fresh.since);
        self.high_water = self.high_water.max(fresh.high_water);
    }

    /// Whether a burst is on.
    pub fn is_panicking(&self) -> bool {
        self.since.is_some()
    }

    /// When the threshold was last exceeded, or the panic began without that; `None` if no burst is on.
    pub fn calm_since(&self) -> Option<Duration> {
        self.since
    }

    /// Enters, extends or leaves panic.
    pub fn observe(&mut self, over_threshold: bool, stable_window: Duration, now: Duration) {
        if over_threshold {
            self.since = Some(now);
        } else if self.since.is_some_and(|since| now.saturating_sub(since) > stable_window) {
            self.since = None;
            self.high_water = 0;
        }
    }

    /// The decision from what the stable and the panic window want.
    pub fn hold(&mut self, stable_pods: u32, panic_pods: u32) -> u32 {
        if !self.is_panicking() {
            return stable_pods;
        }
        self.high_water = self.high_water.max(stable_pods).max(panic_pods);
        self.high_water
    }
}
