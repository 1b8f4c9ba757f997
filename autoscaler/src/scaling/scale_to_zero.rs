//! The scale-to-zero sequence: the steps from the last pods to none, and what interrupts them.
//!
//! ```text
//!             idle for a stable window,          Proxy mode is in force,
//!             active for one as well             a probe of the Service reaches an activator
//!  Active ─────────────► Inactive ─────────────────────► verified ────────► zero
//!    ▲                    ▲   │       (retention, and grace since Proxy)
//!    │        Activating ─┘   │
//!    │   progress deadline    │
//!    └────────────────────────┘ any request, a decision without `idle_since`, or a schedule
//! ```
//!
//! Input: what the zero-scaler observed of one workload, and its settings. Output: the next step
//! and the time of the next reconcile. The zero-scaler carries the step out and calls again; this
//! module keeps no state. The rules are Knative's (`handleScaleToZero` in
//! `pkg/reconciler/autoscaling/kpa/scaler.go`), with these intended differences:
//!
//! - Idleness means that the collector received a report from every source for a whole stable
//!   window. An average of 0 is not enough. Without a decision no workload goes to zero, even if
//!   its pods never became ready.
//! - A workload above minReplicas is scaled down by the HPA (or by the zero-scaler for `Direct`)
//!   before it goes to zero; there is no detour over 1. Only an unreachable workload goes to zero
//!   from any size.
//! - The maximum rate of scaling down does not keep pods from zero. With minReplicas of 2 or more
//!   the decider would want half of the ready pods forever, because no writer removes a pod.
//! - Grace counts from the moment at which activators were in the slices, not from the intention to
//!   put them there. A long inactivity does not replace the time in Proxy.
//! - The activator path probe is repeated right before the end, also with a target burst capacity
//!   of -1. Knative skips it there because the activator is always in the path. That is the desired
//!   state and may differ from the actual one: after the loss of the last activator, or while
//!   kube-proxy is behind, requests still go to the pods that are about to be removed.
//! - A workload goes inactive, and to zero, only if what comes back from zero would serve
//!   (`findings::wake`): its newest pod is ready, and the API server accepts a further one.
//! - Pods that are given up after the progress deadline go through the same probe, grace and
//!   retention instead of going to zero at once. Activators are already in the path, so it adds at
//!   most a second.
//!
//! All times are Unix milliseconds, because they come from objects and outlive the process that
//! wrote them. Clocks jump, and those of two processes differ. So a period has passed only if it
//! has passed by these times and by the caller's monotonic clock ([`SeenFor`]).

use std::time::Duration;

use crate::Decision;
use crate::scaling::decider::DeciderSpec;
use crate::settings::Settings;

/// Recheck after a failed probe, or while the slices are being written.
const SOON: Duration = Duration::from_secs(1);
/// How long after the progress deadline pods that are still not ready are given up. The Deployment
/// controller has then reported `ProgressDeadlineExceeded`.
const AFTER_DEADLINE: Duration = Duration::from_secs(30);

/// Milliseconds by which an activator's last report of a request may follow the start of idleness
/// and still be counted as earlier: the two times come from two processes. Shorter than the
/// shortest stable window, so that no request can hide in it.
const CLOCK_SLACK: i64 = 3000;
/// Time after an activator's report from which on every decision includes it: activators report to
/// the adapter each second, and it decides every two seconds.
pub const DECISION_LAG: Duration = Duration::from_secs(5);

/// The observed facts of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedWorkload {
    /// `spec.replicas` of the target.
    pub replicas: i32,
    /// The smallest size that the HPA scales to: its minReplicas, at least 1. An unreachable
    /// workload may go to zero from a larger size.
    pub min_replicas: i32,
    /// Whether the workload may be at zero; see [`is_allowed`].
    pub allowed: bool,
    /// Whether the workload's schedule keeps pods at present.
    pub scheduled: bool,
    /// Demand by the decider; `None` without a decision.
    pub demand: Option<RequestDemand>,
    /// Whether each activator that may carry requests reports to the caller.
    pub activators_report: bool,
    /// Phase of the Active condition.
    pub phase: ActivePhase,
    /// When this phase began.
    pub phase_since: i64,
    /// Since when Proxy mode is in force and activators are in the Service's slices; `None` when
    /// they are not.
    pub proxied_since: Option<i64>,
    /// Whether an earlier pass already reached an activator through the Service.
    pub verified_before: bool,
    /// Result of the probe of this pass; `None` before it was sent.
    pub probe: Option<bool>,
    /// For how long the caller has observed what holds now.
    pub seen: SeenFor,
    /// Whether what comes back from zero would serve; `None` before it was checked.
    pub wakeable: Option<bool>,
}

/// For how long one process has observed each condition, by its monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenFor {
    /// There is no request.
    pub idle: Duration,
    /// The present phase.
    pub phase: Duration,
    /// Activators are in the slices.
    pub proxied: Duration,
}

/// Demand as reported by the decider and the activators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDemand {
    /// Pods wanted.
    pub desired: u32,
    /// The least that the decider wants of the ready pods, however idle they are: the maximum rate
    /// of scaling down.
    pub least: u32,
    /// Since when there is no request; `None` while there are requests, or if a source is silent.
    pub idle_since: Option<i64>,
}

/// The phase of a workload, as in its Active condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivePhase {
    /// Pods are ready.
    Active,
    /// Pods are wanted and not ready yet.
    Activating,
    /// Idle: in the scale-to-zero sequence, or at zero.
    Inactive,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleToZeroStep {
    /// No change. Reconcile again on the next event, and after `recheck` if it is set.
    Stay {
        /// Why there is no change.
        reason: StayReason,
        /// Time after which the step changes without any event.
        recheck: Option<Duration>,
    },
    /// Mark as inactive, which brings the activators into the path.
    GoInactive,
    /// Probe the Service's address, then compute the step again with the result.
    ProbeActivator,
    /// Check whether what comes back from zero would serve, then compute the step again.
    CheckWake,
    /// Write 0.
    ScaleToZero,
    /// Leave the scale-to-zero sequence, or leave zero itself.
    Reactivate,
}

/// Why a workload keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// Scale-to-zero is off, for the workload or the cluster.
    NotAllowed,
    /// The workload's schedule keeps pods at present.
    Scheduled,
    /// At zero, and no request is held.
    AtZero,
    /// The size is not minReplicas: the HPA is still at work.
    NotAtMinimum,
    /// There is no decision.
    NoDecision,
    /// No activator is ready to hold requests.
    NoActivator,
    /// An activator that may carry requests does not report.
    ActivatorSilent,
    /// There are requests.
    Requests,
    /// Idle, but for less than the stable window.
    IdleTooShortly,
    /// Active for less than the stable window.
    ActiveTooShortly,
    /// Pods are not ready yet, and it is too early to give them up.
    Activating,
    /// Activators are not in the slices yet.
    NotProxied,
    /// The last probe of the Service did not reach an activator.
    PathNotVerified,
    /// All other conditions hold, but grace or retention is not over.
    Grace,
    /// Another controller reverts the size.
    OtherWriter,
    /// What would come back from zero would not serve.
    WakeBlocked,
}

// === impl SeenFor ===

impl SeenFor {
    /// For callers with one clock, which never jumps.
    pub const ALWAYS: Self = Self { idle: Duration::MAX, phase: Duration::MAX, proxied: Duration::MAX };
}

// === impl RequestDemand ===

impl RequestDemand {
    /// Combines a decision that arrived at `received` with the last request that an activator
    /// reported, at `requested`. The settings are those with which the decider made it.
    ///
    /// `idle_since` is by the adapter's clock, the other two times are by this process's clock. A
    /// request reported after `idle_since` ends idleness until a decision arrives that must include
    /// it. If that decision is still idle, then the clocks differ or the report was late, and
    /// idleness counts from the report.
    pub fn new(decision: &Decision, settings: &Settings, received: i64, requested: Option<i64>) -> Self {
        let desired = decision.desired;
        // `as` saturates.
        let least = DeciderSpec::least_of(decision.ready.into(), settings.scale.max_down_rate) as u32;
        let Some((since, requested)) = decision.idle_since.zip(requested) else {
            return Self { desired, least, idle_since: decision.idle_since };
        };
        let lag = i64::try_from(DECISION_LAG.as_millis()).unwrap_or(i64::MAX);
        let idle_since = if requested <= since.saturating_add(CLOCK_SLACK) {
            Some(since)
        } else {
            (received >= requested.saturating_add(lag)).then_some(requested)
        };
        Self { desired, least, idle_since }
    }
}

// === impl ScaleToZeroStep ===

impl ScaleToZeroStep {
    fn wait(reason: StayReason, recheck: Duration) -> Self {
        Self::Stay { reason, recheck: Some(recheck) }
    }

    fn stay(reason: StayReason) -> Self {
        Self::Stay { reason, recheck: None }
    }
}

// === impl StayReason ===

impl StayReason {
    /// The message of a condition: it completes "the workload keeps its size because".
    pub fn message(self) -> &'static str {
        match self {
            Self::NotAllowed => "scale-to-zero is off for the workload or for the cluster",
            Self::Scheduled => "the schedule of the workload keeps its minimum at present",
            Self::AtZero => "the workload is at zero and no request is held",
            Self::NotAtMinimum => "the workload is not at minReplicas yet; the HPA scales it down first",
            Self::NoDecision => {
                "there is no decision: the metrics-adapter does not respond, or has no data of the workload"
            }
            Self::NoActivator => "no activator is ready, so no request could be held at zero",
            Self::ActivatorSilent => "an activator that may carry requests does not report",
            Self::Requests => "the workload receives requests",
            Self::IdleTooShortly => "the workload has been idle for less than its stable window",
            Self::ActiveTooShortly => "the workload became active less than a stable window ago",
            Self::Activating => "pods are not ready yet, and the progress deadline is not over",
            Self::NotProxied => "no activator is in the Service's endpoints yet",
            Self::PathNotVerified => "a probe of the Service's address did not reach an activator",
            Self::Grace => "the grace or retention period before zero is not over",
            Self::OtherWriter => "another controller reverts the size",
            Self::WakeBlocked => "what would come back from zero would not serve",
        }
    }
}

/// Whether a workload may be at zero: the cluster allows it, and it is requested for the workload
/// or the workload is unreachable.
pub fn is_allowed(requested: bool, settings: &Settings) -> bool {
    settings.zero.enabled && (requested || !settings.zero.reachability.is_reachable())
}

/// The next step of the scale-to-zero sequence, or out of it.
pub fn next_step(observed: &ObservedWorkload, settings: &Settings, now: i64) -> ScaleToZeroStep {
    if observed.replicas <= 0 {
        return at_zero(observed);
    }
    if !observed.allowed {
        return leave_inactive(observed, StayReason::NotAllowed);
    }
    if observed.scheduled {
        return leave_inactive(observed, StayReason::Scheduled);
    }
    let Some(demand) = observed.demand else { return ScaleToZeroStep::stay(StayReason::NoDecision) };
    let Some(idle_since) = demand.idle_since.filter(|_| demand.desired <= demand.least) else {
        let silent = demand.idle_since.is_none() && !observed.activators_report;
        let reason = if silent { StayReason::ActivatorSilent } else { StayReason::Requests };
        return leave_inactive(observed, reason);
    };
    if observed.replicas != observed.min_replicas && settings.zero.reachability.is_reachable() {
        return leave_inactive(observed, StayReason::NotAtMinimum);
    }
    if let Some(rest) = remaining(idle_since, observed.seen.idle, idle_window(demand, settings), now) {
        // Also when inactive: idleness that began anew means that there was a request in between.
        return leave_inactive_or(observed, ScaleToZeroStep::wait(StayReason::IdleTooShortly, rest));
    }
    if !observed.activators_report {
        return ScaleToZeroStep::stay(StayReason::ActivatorSilent);
    }
    if observed.wakeable == Some(false) {
        return leave_inactive(observed, StayReason::WakeBlocked);
    }
    let step = match observed.phase {
        ActivePhase::Active => {
            go_inactive_after(settings.window.stable, StayReason::ActiveTooShortly, observed, now)
        }
        ActivePhase::Activating => {
            let given_up_after = settings.wake.progress_deadline.saturating_add(AFTER_DEADLINE);
            go_inactive_after(given_up_after, StayReason::Activating, observed, now)
        }
        ActivePhase::Inactive => while_inactive(observed, settings, now),
    };
    let changes = matches!(step, ScaleToZeroStep::GoInactive | ScaleToZeroStep::ScaleToZero);
    if changes && observed.wakeable.is_none() { ScaleToZeroStep::CheckWake } else { step }
}

/// How long a workload has to be idle. A delay of scaling down is over with a decision of 0, and
/// has to be added where the rate of scaling down keeps decisions above that.
fn idle_window(demand: RequestDemand, settings: &Settings) -> Duration {
    let delay = if demand.desired == 0 { Duration::ZERO } else { settings.scale.down_delay };
    settings.window.stable.saturating_add(delay)
}

fn at_zero(observed: &ObservedWorkload) -> ScaleToZeroStep {
    let wanted = observed.demand.is_some_and(|demand| demand.desired > 0 && demand.idle_since.is_none());
    if wanted || observed.scheduled || !observed.allowed {
        ScaleToZeroStep::Reactivate
    } else {
        ScaleToZeroStep::stay(StayReason::AtZero)
    }
}

fn leave_inactive(observed: &ObservedWorkload, reason: StayReason) -> ScaleToZeroStep {
    leave_inactive_or(observed, ScaleToZeroStep::stay(reason))
}

fn leave_inactive_or(observed: &ObservedWorkload, otherwise: ScaleToZeroStep) -> ScaleToZeroStep {
    if observed.phase == ActivePhase::Inactive { ScaleToZeroStep::Reactivate } else { otherwise }
}

fn go_inactive_after(
    period: Duration,
    reason: StayReason,
    observed: &ObservedWorkload,
    now: i64,
) -> ScaleToZeroStep {
    remaining(observed.phase_since, observed.seen.phase, period, now)
        .map_or(ScaleToZeroStep::GoInactive, |rest| ScaleToZeroStep::wait(reason, rest))
}

fn while_inactive(observed: &ObservedWorkload, settings: &Settings, now: i64) -> ScaleToZeroStep {
    let Some(proxied_since) = observed.proxied_since else {
        return ScaleToZeroStep::wait(StayReason::NotProxied, SOON);
    };
    let grace = remaining(proxied_since, observed.seen.proxied, settings.zero.grace_period, now);
    let retention = remaining(observed.phase_since, observed.seen.phase, retention(settings), now);
    // `None` is less than any `Some`.
    let rest = grace.max(retention);
    match (observed.probe, rest) {
        (Some(false), _) => ScaleToZeroStep::wait(StayReason::PathNotVerified, SOON),
        (Some(true), None) => ScaleToZeroStep::ScaleToZero,
        (None, None) => ScaleToZeroStep::ProbeActivator,
        (None, Some(_)) if !observed.verified_before => ScaleToZeroStep::ProbeActivator,
        (_, Some(rest)) => ScaleToZeroStep::wait(StayReason::Grace, rest),
    }
}

/// How long the last pod is kept; zero for an unreachable workload, which cannot receive a request.
fn retention(settings: &Settings) -> Duration {
    if settings.zero.reachability.is_reachable() { settings.zero.pod_retention } else { Duration::ZERO }
}

/// What is left of `period` since `start`, which was seen for this long, in whole milliseconds;
/// `None` when it is over.
fn remaining(start: i64, seen: Duration, period: Duration, now: i64) -> Option<Duration> {
    let passed = Duration::from_millis(u64::try_from(now.saturating_sub(start)).unwrap_or(0)).min(seen);
    let rest = period.checked_sub(passed).filter(|rest| !rest.is_zero())?;
    // Rounded up: times are in milliseconds, so a shorter wait would end before the next one.
    let part = u64::from(rest.subsec_nanos() % 1_000_000 > 0);
    let millis = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
    Some(Duration::from_millis(millis.saturating_add(part)))
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
