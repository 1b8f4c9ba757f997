//! Decider: how many pods a workload should have, from the averages of its windows.
//!
//! ```text
//!  averages ─► pods wanted (stable, panic) ─► rate limits ─► activation scale ─► panic hold ─► scale-down delay ─► desired
//!                                  └─► over the threshold? ─► panic mode
//! ```
//!
//! Fed every two seconds, and at once when that cannot wait, by the metrics-adapter with the averages of a
//! [`Collection`](crate::collection::Collection) and the number of ready pods. Its verdict goes to the zero-scaler and, as
//! the floor of a metric, to the HPA. minReplicas and maxReplicas are not applied here: the writer of `/scale` knows them.
//!
//! What surprises: no data is no verdict, and changes nothing, not even panic; and what is not a number is no data. The rules are Knative's
//! (`pkg/autoscaler/scaling/autoscaler.go`), to the last bit.

pub mod burst_capacity;
mod panic_mode;

use std::time::Duration;

pub use panic_mode::PanicMode;

use crate::collection::Averages;
use crate::settings::Settings;
use crate::target::Target;
use crate::window::MaxWindow;

/// Seconds in a slot of the scale-down delay: the decider's own period.
const DELAY_GRANULARITY: Duration = Duration::from_secs(2);

/// What a decision goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct DeciderSpec {
    /// Value of the metric that one pod should carry. Above 0.
    pub target: f64,
    /// Value of the metric that one pod can carry at most.
    pub total: f64,
    /// See [`Settings::target_burst_capacity`].
    pub target_burst_capacity: f64,
    /// Factor of the ready pods at which the panic window starts a panic.
    pub panic_threshold: f64,
    /// See [`Settings::max_scale_up_rate`].
    pub max_scale_up_rate: f64,
    /// See [`Settings::max_scale_down_rate`].
    pub max_scale_down_rate: f64,
    /// Length of the stable window: how long a panic lasts after its last excess.
    pub stable_window: Duration,
    /// How long a larger decision is held. Only its value at the decider's creation counts.
    pub scale_down_delay: Duration,
    /// Smallest size when there is any load at all; 1 when not set.
    pub activation_scale: u32,
    /// Whether requests can come at all. If not, neither the down rate nor the delay holds pods back.
    pub reachable: bool,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Pods wanted, before minReplicas and maxReplicas.
    pub desired: u32,
    /// Spare capacity over the target burst capacity.
    pub excess_burst_capacity: i32,
    /// The averages decided by.
    pub averages: Averages,
    /// Where `desired` comes from.
    pub rule: Rule,
    /// Whether `desired` is meant to outlast its averages: they may ask for less, now or before the next decision.
    pub held: bool,
}

/// The step of a decision that set its number: the last one that changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What the stable average needs.
    Stable,
    /// What the panic average needs; only while panicking.
    Panic,
    /// Needed more, limited by [`DeciderSpec::max_scale_up_rate`].
    ScaleUpRate,
    /// Needed less, limited by [`DeciderSpec::max_scale_down_rate`].
    ScaleDownRate,
    /// Needed less, raised to [`DeciderSpec::activation_scale`].
    ActivationScale,
    /// The most of an earlier decision of this panic.
    PanicHold,
    /// The most of an earlier decision within [`DeciderSpec::scale_down_delay`].
    ScaleDownDelay,
}

impl Rule {
    /// Whether it keeps more than the averages ask for.
    const fn keeps(self) -> bool {
        matches!(self, Self::ScaleDownRate | Self::ActivationScale | Self::PanicHold | Self::ScaleDownDelay)
    }
}

/// The memory between the decisions on one workload: panic, and the held maximum.
#[derive(Clone, Debug)]
pub struct Decider {
    panic: PanicMode,
    delay: Option<MaxWindow>,
}

/// Bounds of one decision.
#[derive(Clone, Copy, Debug)]
struct RateLimits {
    up: f64,
    down: f64,
}

// === impl DeciderSpec ===

impl Default for DeciderSpec {
    /// A pod that carries 70 of its 100, with Knative's defaults for the rest.
    fn default() -> Self {
        Self {
            target: 70.0,
            total: 100.0,
            target_burst_capacity: 211.0,
            panic_threshold: 2.0,
            max_scale_up_rate: 1000.0,
            max_scale_down_rate: 2.0,
            stable_window: Duration::from_secs(60),
            scale_down_delay: Duration::ZERO,
            activation_scale: 1,
            reachable: true,
        }
    }
}

impl DeciderSpec {
    /// The spec of a workload whose pods should carry `target` each.
    pub fn new(settings: &Settings, target: Target) -> Self {
        let Target { target, total } = target;
        Self {
            target,
            total,
            target_burst_capacity: settings.target_burst_capacity,
            panic_threshold: settings.panic_threshold_percentage / 100.0,
            max_scale_up_rate: settings.max_scale_up_rate,
            max_scale_down_rate: settings.max_scale_down_rate,
            stable_window: settings.stable_window,
            scale_down_delay: settings.scale_down_delay,
            activation_scale: settings.activation_scale,
            reachable: settings.reachability.is_reachable(),
        }
    }

    fn rate_limits(&self, ready: f64) -> RateLimits {
        let down = if self.reachable { (ready / self.max_scale_down_rate).floor() } else { 0.0 };
        RateLimits { up: (self.max_scale_up_rate * ready).ceil(), down }
    }

    /// Pods for an average: limited by the rates, then raised to the activation scale, which may exceed them.
    fn pods_for(&self, wanted: f64, limits: RateLimits, load: Rule) -> (u32, Rule) {
        // `as` saturates; a negative average (more proxied than seen) wants no pods.
        let pods = wanted.max(limits.down).min(limits.up) as u32;
        if wanted > 0.0 && pods < self.activation_scale {
            return (self.activation_scale, Rule::ActivationScale);
        }
        (pods, limits.rule(wanted).unwrap_or(load))
    }
}

// === impl RateLimits ===

impl RateLimits {
    /// The limit that `wanted` is outside of. A negative average wants none, and is at a lower limit of 0.
    fn rule(self, wanted: f64) -> Option<Rule> {
        if wanted > self.up {
            Some(Rule::ScaleUpRate)
        } else {
            (wanted.max(0.0) < self.down).then_some(Rule::ScaleDownRate)
        }
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

    /// From now on this one decides, after another that may have known more: for a stable window nothing is taken away from
    /// the `ready` pods, as if they were found at the start.
    pub fn take_over(&mut self, ready: u32, now: Duration) {
        self.panic.take_over(ready, now);
    }

    /// Whether the last decision was made in panic, or the next starts so.
    pub fn is_panicking(&self) -> bool {
        self.panic.is_panicking()
    }

    /// Since when the panic threshold has not been exceeded, if a panic is on: the instant its end is counted from.
    pub fn calm_since(&self) -> Option<Duration> {
        self.panic.calm_since()
    }

    /// Decides; `None` without data, or if they make no number of pods (a target of 0 can do that).
    ///
    /// With a target burst capacity of -1 the activator is always in the path and speaks for every request, so its silence
    /// is zero. The caller must know that it is silence, and not an activator that cannot be heard.
    pub fn decide(
        &mut self,
        spec: &DeciderSpec,
        averages: Option<Averages>,
        ready: u32,
        now: Duration,
    ) -> Option<Verdict> {
        let averages = averages.or_else(|| (spec.target_burst_capacity == -1.0).then(Averages::default))?;
        let pods = f64::from(ready.max(1));
        let wanted_stable = (averages.stable / spec.target).ceil();
        let wanted_panic = (averages.panic / spec.target).ceil();
        if wanted_stable.is_nan() || wanted_panic.is_nan() {
            return None;
        }
        let limits = spec.rate_limits(pods);
        let (stable_pods, stable_rule) = spec.pods_for(wanted_stable, limits, Rule::Stable);
        let (panic_pods, panic_rule) = spec.pods_for(wanted_panic, limits, Rule::Panic);

        // By what is wanted, not by what the limits leave of it.
        self.panic.observe(wanted_panic / pods >= spec.panic_threshold, spec.stable_window, now);
        let held = self.panic.hold(stable_pods, panic_pods);
        let desired = match &mut self.delay {
            Some(delay) if spec.reachable => delay.record(now, held),
            _ => held,
        };
        let rule = if desired > held {
            Rule::ScaleDownDelay
        } else if held == stable_pods {
            stable_rule
        } else if held == panic_pods {
            panic_rule
        } else {
            Rule::PanicHold
        };
        let excess_burst_capacity = burst_capacity::excess(spec, ready, averages.panic);
        let delayed = self.delay.is_some() && spec.reachable;
        let held = self.is_panicking() || delayed || rule.keeps();
        Some(Verdict { desired, excess_burst_capacity, averages, rule, held })
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
