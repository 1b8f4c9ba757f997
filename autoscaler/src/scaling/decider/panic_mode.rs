//! Panic mode: whether a burst is on, and the most pods wanted since it began.
//!
//! ```text
//!              over the threshold                     over: the time starts anew
//!   calm ───────────────────────────► panicking ──┐
//!     ▲                                   │   ▲───┘
//!     └───────────────────────────────────┘
//!        not over for longer than the stable window
//! ```
//!
//! In panic the decision never falls, because the pods for the burst are still starting.

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
    /// The state of a new decider. With more than one ready pod it starts in panic: without a
    /// history of the load it must not take pods away.
    pub fn starting_with(ready: u32, now: Duration) -> Self {
        Self { since: (ready > 1).then_some(now), high_water: ready }
    }

    /// As [`starting_with`](Self::starting_with), on top of the present state.
    pub fn take_over(&mut self, ready: u32, now: Duration) {
        let fresh = Self::starting_with(ready, now);
        self.since = self.since.max(fresh.since);
        self.high_water = self.high_water.max(fresh.high_water);
    }

    /// Whether a burst is on.
    pub fn is_panicking(&self) -> bool {
        self.since.is_some()
    }

    /// When the threshold was last exceeded, or when the decider started in panic; `None` when
    /// calm.
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

    /// The decision from the pods that the stable and the panic window need.
    pub fn hold(&mut self, stable_pods: u32, panic_pods: u32) -> u32 {
        if !self.is_panicking() {
            return stable_pods;
        }
        self.high_water = self.high_water.max(stable_pods).max(panic_pods);
        self.high_water
    }
}
