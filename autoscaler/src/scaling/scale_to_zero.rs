//! The way from the last pods to none, and what interrupts it.
//!
//! ```text
//!             idle for a stable window,          mode in force is Proxy,
//!             active for one as well             an activator answers on the Service
//!  Active ─────────────► Inactive ─────────────────────► proven ──────────► zero
//!    ▲                    ▲   │       (retention, and grace since Proxy)
//!    │        Activating ─┘   │
//!    │   progress deadline    │
//!    └────────────────────────┘ any request, or any word that is not "idle"
//! ```
//!
//! Input: what the zero-scaler observed of one workload, and its settings. Output: the next step and when to look again.
//! The zero-scaler carries a step out and asks again; nothing is remembered here. The rules are Knative's
//! (`handleScaleToZero` in `pkg/reconciler/autoscaling/kpa/scaler.go`), with these differences, all of them on purpose:
//!
//! - Idleness is a fact that the collector vouches for, for a whole stable window, and not an average of 0. Without a decision
//!   nothing goes to zero, not even pods that never came up.
//! - Above its smallest size a workload is left to whoever scales it down (the HPA, or the zero-scaler for `Direct`); there is
//!   no detour over 1. Only an unreachable one goes to zero from any size.
//! - Grace counts from the moment that activators were in the slices, never from an intention: a long inactivity does not stand
//!   in for a short time in Proxy.
//! - The proof is asked for anew right before the end, and also with a target burst capacity of -1, where Knative skips it because
//!   the activator is always in the path. That is what is wanted, not what is: when the last activator was lost, or kube-proxy
//!   is behind, requests go to the pods that are about to go.
//! - Pods that are given up after the progress deadline go the same way, with proof and grace, and not to zero at once.
//!   Activators have been in the path all the time, so it costs no more than a second. A retention period holds for them too.
//!
//! All times are Unix milliseconds, because they come from objects and outlive the process that wrote them.

use std::time::Duration;

use crate::Decision;
use crate::settings::Settings;

/// How soon to look again after a proof that failed, or while the slices are being written.
const SOON: Duration = Duration::from_secs(1);
/// How long after the progress deadline pods that are still not ready are given up. Whoever runs them has then given up too.
const AFTER_DEADLINE: Duration = Duration::from_secs(30);

/// By how much an activator's last word may follow the start of idleness and still be part of what came before it: the two
/// times come from two processes. Shorter than the shortest stable window, so that no request can hide in it.
const CLOCK_SLACK: i64 = 3000;
/// How much later than an activator's last word a decision must come to know of it: activators tell the adapter each second, and
/// it decides each two.
pub const DECISION_LAG: Duration = Duration::from_secs(5);

/// What is known of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedWorkload {
    /// `spec.replicas` of the target.
    pub replicas: i32,
    /// Where the HPA rests: its minReplicas, at least 1. An unreachable workload need not have come there.
    pub min_replicas: i32,
    /// Whether the workload may be at zero; see [`is_allowed`].
    pub allowed: bool,
    /// What the decider says; `None` while nothing is known.
    pub demand: Option<RequestDemand>,
    /// Where the workload stands.
    pub phase: ActivePhase,
    /// Since when it stands there.
    pub phase_since: i64,
    /// Since when activators are in the Service's slices, in Proxy mode in force; `None` when they are not.
    pub proxied_since: Option<i64>,
    /// Whether an earlier pass already reached an activator through the Service.
    pub verified_before: bool,
    /// What the probe of this pass found; `None` when there was none yet.
    pub probe: Option<bool>,
}

/// What the decider and the activators say about requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDemand {
    /// Pods wanted.
    pub desired: u32,
    /// Since when nobody saw a request; `None` as soon as somebody did.
    pub idle_since: Option<i64>,
}

/// Where a workload stands, as its Active condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivePhase {
    /// Pods are ready.
    Active,
    /// Pods are wanted and not ready yet.
    Activating,
    /// Idle: on the way to zero, or there.
    Inactive,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleToZeroStep {
    /// Nothing; look again when something changes, and after `recheck` if there is one.
    Stay {
        /// What is waited for.
        reason: StayReason,
        /// After which the answer changes although nothing else does.
        recheck: Option<Duration>,
    },
    /// Mark as inactive, which brings the activators into the path.
    GoInactive,
    /// Ask the Service who answers, then decide again with the outcome.
    ProbeActivator,
    /// Write 0.
    ScaleToZero,
    /// Leave the way to zero, or leave zero itself.
    Reactivate,
}

/// StayReason nothing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// Scale-to-zero is off, for the workload or the cluster.
    NotAllowed,
    /// At zero, and nobody asks.
    AtZero,
    /// The size is not minReplicas: the HPA is still at work.
    NotAtMinimum,
    /// No decision is known.
    NoDecision,
    /// Nobody is there to hold requests.
    NoActivator,
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
    /// The Service is not answered by an activator.
    PathNotVerified,
    /// Everything holds, but grace or retention is not over.
    Grace,
}

// === impl RequestDemand ===

impl RequestDemand {
    /// A decision that came at `heard`, beside an activator's last word of a request, which came at `asked`.
    ///
    /// The adapter's idleness is by its own clock, the other two times are by ours. Idleness that seems older than the word of a
    /// request is none until a decision came that must know of that request; if it still says idle, the clocks differ, or the
    /// word was long on its way, and nobody has asked since.
    pub fn new(decision: &Decision, heard: i64, asked: Option<i64>) -> Self {
        let desired = decision.desired;
        let Some((since, asked)) = decision.idle_since.zip(asked) else {
            return Self { desired, idle_since: decision.idle_since };
        };
        let decided = i64::try_from(DECISION_LAG.as_millis()).unwrap_or(i64::MAX);
        let idle_since = if asked <= since.saturating_add(CLOCK_SLACK) {
            Some(since)
        } else {
            (heard >= asked.saturating_add(decided)).then_some(asked)
        };
        Self { desired, idle_since }
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
    /// In a word, for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "ScaleToZeroOff",
            Self::AtZero => "Sleeping",
            Self::NotAtMinimum => "NotAtMinimum",
            Self::NoDecision => "NoDecision",
            Self::NoActivator => "NoActivator",
            Self::Requests => "Requests",
            Self::IdleTooShortly => "IdleTooShortly",
            Self::ActiveTooShortly => "ActiveTooShortly",
            Self::Activating => "PodsStarting",
            Self::NotProxied => "NotProxied",
            Self::PathNotVerified => "NotProven",
            Self::Grace => "GracePeriod",
        }
    }

    /// In words, for conditions.
    pub fn message(self) -> &'static str {
        match self {
            Self::NotAllowed => "scale-to-zero is off",
            Self::AtZero => "at zero and no request is waiting",
            Self::NotAtMinimum => "the size is not minReplicas yet",
            Self::NoDecision => "no decision is known: the metrics-adapter is silent, or has no data",
            Self::NoActivator => "no activator is there to hold a request",
            Self::Requests => "there are requests",
            Self::IdleTooShortly => "idle for less than the stable window",
            Self::ActiveTooShortly => "active for less than the stable window",
            Self::Activating => "pods are not ready yet, and the progress deadline is not over",
            Self::NotProxied => "no activator is in the Service's endpoints yet",
            Self::PathNotVerified => "the Service is not answered by an activator yet",
            Self::Grace => "waiting for the grace or retention period to end",
        }
    }
}

/// Whether a workload may be at zero: where the cluster allows it, if it asks for it or no request can come any more.
pub fn is_allowed(asks: bool, settings: &Settings) -> bool {
    settings.enable_scale_to_zero && (asks || !settings.reachability.is_reachable())
}

/// The next step on the way to zero, or away from it.
pub fn next_step(observed: &ObservedWorkload, settings: &Settings, now: i64) -> ScaleToZeroStep {
    if observed.replicas <= 0 {
        return at_zero(observed);
    }
    if !observed.allowed {
        return leave_inactive(observed, StayReason::NotAllowed);
    }
    let Some(demand) = observed.demand else { return ScaleToZeroStep::stay(StayReason::NoDecision) };
    let Some(idle_since) = demand.idle_since.filter(|_| demand.desired == 0) else {
        return leave_inactive(observed, StayReason::Requests);
    };
    if observed.replicas != observed.min_replicas && settings.reachability.is_reachable() {
        return leave_inactive(observed, StayReason::NotAtMinimum);
    }
    if let Some(rest) = remaining(idle_since, settings.stable_window, now) {
        // Also when inactive: idleness that began anew means that a request came by.
        return leave_inactive_or(observed, ScaleToZeroStep::wait(StayReason::IdleTooShortly, rest));
    }
    match observed.phase {
        ActivePhase::Active => {
            go_inactive_after(settings.stable_window, StayReason::ActiveTooShortly, observed, now)
        }
        ActivePhase::Activating => {
            let given_up_after = settings.progress_deadline.saturating_add(AFTER_DEADLINE);
            go_inactive_after(given_up_after, StayReason::Activating, observed, now)
        }
        ActivePhase::Inactive => while_inactive(observed, settings, now),
    }
}

fn at_zero(observed: &ObservedWorkload) -> ScaleToZeroStep {
    let wanted = observed.demand.is_some_and(|demand| demand.desired > 0 && demand.idle_since.is_none());
    if wanted || !observed.allowed {
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
    remaining(observed.phase_since, period, now)
        .map_or(ScaleToZeroStep::GoInactive, |rest| ScaleToZeroStep::wait(reason, rest))
}

fn while_inactive(observed: &ObservedWorkload, settings: &Settings, now: i64) -> ScaleToZeroStep {
    let Some(proxied_since) = observed.proxied_since else {
        return ScaleToZeroStep::wait(StayReason::NotProxied, SOON);
    };
    let grace = remaining(proxied_since, settings.scale_to_zero_grace_period, now);
    let retention = remaining(observed.phase_since, retention(settings), now);
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

/// How long the last pod is kept. Nothing is kept for requests that cannot come.
fn retention(settings: &Settings) -> Duration {
    if settings.reachability.is_reachable() {
        settings.scale_to_zero_pod_retention_period
    } else {
        Duration::ZERO
    }
}

/// What is left of `period` since `start`, in whole milliseconds; `None` when it is over.
fn remaining(start: i64, period: Duration, now: i64) -> Option<Duration> {
    let passed = Duration::from_millis(u64::try_from(now.saturating_sub(start)).unwrap_or(0));
    let rest = period.checked_sub(passed).filter(|rest| !rest.is_zero())?;
    // Rounded up: a clock of milliseconds would not move by less.
    let part = u64::from(rest.subsec_nanos() % 1_000_000 > 0);
    let millis = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX);
    Some(Duration::from_millis(millis.saturating_add(part)))
}

#[cfg(test)]
mod tests;
