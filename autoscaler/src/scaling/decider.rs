//! Decider: how many pods a workload should have, from the averages of its windows.
//!
//! ```text
//!  averages ─► pods wanted (stable, panic) ─► rate limits ─► activation scale ─► panic hold
//!                                  │                                                  │
//!                                  └─► over the threshold? ─► panic mode               ▼
//!                                                         desired ◄──────── scale-down delay
//! ```
//!
//! Input: the averages of a [`Collection`](crate::stats::collection::Collection) and the number of
//! ready pods, from the metrics-adapter every two seconds, or at once if
//! [`Decision::is_outdated`](crate::Decision::is_outdated). Output: a [`ScaleResult`], for the
//! zero-scaler and, as the floor of a metric, for the HPA. minReplicas and maxReplicas are not
//! applied here: the writer of `/scale` applies them.
//!
//! What surprises: without data there is no decision, and the state stays as it is, panic included.
//! A value that is not a number counts as no data. The rules are Knative's
//! (`pkg/autoscaler/scaling/autoscaler.go`), to the last bit.

mod burst_capacity;
mod panic_mode;
mod rule;
mod spec;

use std::time::Duration;

pub use panic_mode::PanicMode;
pub use rule::DecisionRule;
pub use spec::DeciderSpec;

use crate::settings::BurstCapacity;
use crate::stats::collection::WindowAverages;
use crate::stats::window::MaxWindow;

/// Seconds in a slot of the scale-down delay: the decider's own period.
const DELAY_GRANULARITY: Duration = Duration::from_secs(2);

/// The result of one decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleResult {
    /// Pods wanted, before minReplicas and maxReplicas.
    pub desired: u32,
    /// Spare capacity over the target burst capacity.
    pub excess_burst_capacity: i32,
    /// The averages that the decision is based on.
    pub averages: WindowAverages,
    /// The step that set `desired`.
    pub rule: DecisionRule,
    /// Whether `desired` is meant to outlast its averages, which may need less now or before the
    /// next decision.
    pub held: bool,
}

/// The state between the decisions on one workload: panic, and the held maximum.
#[derive(Clone, Debug)]
pub struct Decider {
    panic: PanicMode,
    delay: Option<MaxWindow>,
}

// === impl ScaleResult ===

impl ScaleResult {
    /// The result if the averages lack a part of the load: it takes none of the `ready` pods away.
    #[must_use]
    pub fn without_all_reports(self, ready: u32) -> Self {
        if self.desired >= ready { self } else { Self { desired: ready, held: true, ..self } }
    }
}

// === impl Decider ===

impl Decider {
    /// A decider for a workload that has `ready` pods now.
    pub fn new(spec: &DeciderSpec, ready: u32, now: Duration) -> Self {
        let delay = (spec.scale_down_delay > Duration::ZERO)
            .then(|| MaxWindow::new(spec.scale_down_delay, DELAY_GRANULARITY));
        Self { panic: PanicMode::starting_with(ready, now), delay }
    }

    /// Called when this process becomes the workload's only decider. The previous one may have had
    /// more history, so for a stable window no pod of the `ready` ones is taken away, as for a new
    /// decider.
    pub fn take_over(&mut self, ready: u32, now: Duration) {
        self.panic.take_over(ready, now);
    }

    /// Whether the last decision was made in panic, or the next starts so.
    pub fn is_panicking(&self) -> bool {
        self.panic.is_panicking()
    }

    /// When the panic threshold was last exceeded, during a panic: the end of the panic counts from
    /// it.
    pub fn calm_since(&self) -> Option<Duration> {
        self.panic.calm_since()
    }

    /// Decides. `None` without data, or if the averages give no number of pods (for example with a
    /// target of 0).
    ///
    /// With a target burst capacity of -1 the activator is always in the path and reports every
    /// request, so no data counts as zero. The caller makes sure that the activator is connected.
    pub fn decide(
        &mut self,
        spec: &DeciderSpec,
        averages: Option<WindowAverages>,
        ready: u32,
        now: Duration,
    ) -> Option<ScaleResult> {
        let averages = averages.or_else(|| {
            (spec.target_burst_capacity == BurstCapacity::Always).then(WindowAverages::default)
        })?;
        let pods = f64::from(ready.max(1));
        let wanted_stable = (averages.stable / spec.target).ceil();
        let wanted_panic = (averages.panic / spec.target).ceil();
        if wanted_stable.is_nan() || wanted_panic.is_nan() {
            return None;
        }
        let limits = spec.rate_limits(pods);
        let (stable_pods, stable_rule) = spec.pods_for(wanted_stable, limits, DecisionRule::Stable);
        let (panic_pods, panic_rule) = spec.pods_for(wanted_panic, limits, DecisionRule::Panic);

        // By the unlimited value: the rate limits must not hide a panic.
        self.panic.observe(wanted_panic / pods >= spec.panic_threshold, spec.stable_window, now);
        let held = self.panic.hold(stable_pods, panic_pods);
        let desired = match &mut self.delay {
            Some(delay) if spec.reachable => delay.record(now, held),
            _ => held,
        };
        let rule = if desired > held {
            DecisionRule::ScaleDownDelay
        } else if held == stable_pods {
            stable_rule
        } else if held == panic_pods {
            panic_rule
        } else {
            DecisionRule::PanicHold
        };
        let excess_burst_capacity = burst_capacity::excess(spec, ready, averages.panic);
        let delayed = self.delay.is_some() && spec.reachable;
        let held = self.is_panicking() || delayed || rule.holds_pods();
        Some(ScaleResult { desired, excess_burst_capacity, averages, rule, held })
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
