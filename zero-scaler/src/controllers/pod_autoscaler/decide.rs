//! What to do about one workload. Pure: an observation in, a plan out.
//!
//! Brings the brain's rules together: the way to zero, the Active condition, Proxy or Serve, and who may write which size
//! (the table in ARCHITECTURE.md: the HPA between 1 and N; we at zero, ahead of it while panicking, and always if there
//! is none).

use std::time::Duration;

use autoscaler::api::{Scaler, SksMode, condition};
use autoscaler::routing::sks_mode;
use autoscaler::scaling::active_condition::{ActiveCondition, ActiveReason, compute_active_condition};
use autoscaler::scaling::scale_bounds::ScaleBounds;
use autoscaler::scaling::scale_to_zero::{
    self as zero, ActivePhase, RequestDemand, ScaleToZeroStep, StayReason,
};

use super::observe::ObservedWorkload;
use crate::kubernetes::conditions::{self, INITIALIZED};
use crate::scaling::last_activation::{ACTIVE, is_parked_at_zero, last_activation};
use crate::scaling::scale::{Scale, Writer};
use crate::scaling::wake::first_size;

/// How long there may be no activator before sleeping workloads are woken: a single one may be rolling.
const FAIL_OPEN_AFTER: Duration = Duration::from_secs(10);
/// The ActivatorInPath condition's name.
pub(super) const ACTIVATOR_IN_PATH: &str = "ActivatorInPath";

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// What the Active condition says.
    pub(super) activation: ActiveCondition,
    /// Somebody put the workload to zero who is not us.
    pub(super) paused: bool,
    /// The size to write.
    pub(super) write: Option<SizeToWrite>,
    /// The path must be proven before anything else can be said.
    pub(super) probe: bool,
    /// Where requests should go.
    pub(super) mode: SksMode,
    /// Activators for the path.
    pub(super) activators: u32,
    /// Why the way to zero stands where it stands.
    pub(super) why: Option<StayReason>,
    /// When to look again.
    pub(super) recheck: Option<Duration>,
}

/// A size to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeToWrite {
    pub(super) to: i32,
    pub(super) cause: WriteCause,
}

/// Why a size is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteCause {
    /// Nobody asks.
    Idle,
    /// The decider wants pods where there are none.
    Wanted,
    /// The workload may not be at zero.
    NotAllowed,
    /// Nobody is there to hold requests.
    NoActivator,
    /// The decider panics, ahead of the HPA.
    Panic,
    /// There is no HPA.
    Direct,
}

// === impl WriteCause ===

impl WriteCause {
    /// For events and metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Wanted => "wanted",
            Self::NotAllowed => "scale-to-zero is off",
            Self::NoActivator => "no activator",
            Self::Panic => "panic",
            Self::Direct => "direct",
        }
    }

    /// Whether the write holds only for what was observed.
    pub(super) fn is_guarded(self) -> bool {
        !matches!(self, Self::Panic)
    }
}

/// What the way to zero came to.
struct Position {
    /// Pods wanted, 0 once the way to zero is entered; `None` while nothing is known.
    wanted: Option<u32>,
    write: Option<SizeToWrite>,
    probe: bool,
    why: Option<StayReason>,
    recheck: Option<Duration>,
}

/// The plan, given what the probe of this pass found, if there was one.
pub(super) fn decide(observed: &ObservedWorkload, probe: Option<bool>) -> Plan {
    let before = before(observed);
    let Ok(scale) = &observed.scale else { return without_scale(observed, before) };
    if is_paused(observed, scale) {
        return paused(observed);
    }
    let mut position = position(observed, scale, before, probe);
    if position.write.is_none() && scale.replicas > 0 && position.wanted != Some(0) {
        position.write = above_zero(observed, scale);
    }
    // Two that write one size would take turns.
    position.write = position.write.filter(|_| observed.rival.is_none());
    let woken = was_at_zero(observed) && scale.replicas > 0;
    let before = before.filter(|b| !(woken && b.phase == ActivePhase::Inactive));
    let activation = compute_active_condition(position.wanted, observed.ready, min_ready(observed), before);
    plan(observed, position, activation)
}

fn position(
    observed: &ObservedWorkload,
    scale: &Scale,
    before: Option<ActiveCondition>,
    probe: Option<bool>,
) -> Position {
    let held = |wanted, why, recheck| Position { wanted, write: None, probe: false, why: Some(why), recheck };
    let on_the_way = |write, probe| Position { wanted: Some(0), write, probe, why: None, recheck: None };
    let desired = observed.decision.as_ref().map(|d| d.desired);
    let activating = before.is_some_and(|b| b.phase == ActivePhase::Activating);
    let wanted = bounds(observed).clamp(desired, activating).map(|pods| pods.max(1));
    let inactive = before.is_some_and(|b| b.phase == ActivePhase::Inactive);
    match zero::next_step(&machine(observed, scale, before, probe), &observed.settings, millis(observed)) {
        ScaleToZeroStep::Stay { reason: StayReason::AtZero, .. } => at_zero(observed),
        ScaleToZeroStep::Stay { reason: StayReason::NoDecision, recheck } if is_failing_open(observed) => {
            held(wanted, StayReason::NoActivator, recheck)
        }
        ScaleToZeroStep::Stay { reason: StayReason::NoDecision, recheck } => {
            held(wanted, StayReason::NoDecision, recheck)
        }
        ScaleToZeroStep::Stay { reason: StayReason::Requests, .. } => {
            held(wanted, StayReason::Requests, doubt(observed))
        }
        ScaleToZeroStep::Stay { reason: why, recheck }
            if inactive && scale.replicas > 0 && !woken(observed, scale) =>
        {
            held(Some(0), why, recheck)
        }
        ScaleToZeroStep::Stay { reason: why, recheck } => held(wanted, why, recheck),
        ScaleToZeroStep::GoInactive => on_the_way(None, false),
        ScaleToZeroStep::ProbeActivator => on_the_way(None, true),
        ScaleToZeroStep::ScaleToZero => {
            on_the_way(Some(SizeToWrite { to: 0, cause: WriteCause::Idle }), false)
        }
        ScaleToZeroStep::Reactivate if scale.replicas > 0 => {
            let wanted = Some(wanted.unwrap_or(bounds(observed).resting()));
            held(wanted, StayReason::Requests, doubt(observed))
        }
        ScaleToZeroStep::Reactivate => {
            wake(observed, if allowed(observed) { WriteCause::Wanted } else { WriteCause::NotAllowed })
        }
    }
}

/// At zero with nobody asking: fine for as long as somebody is there to hold a request.
fn at_zero(observed: &ObservedWorkload) -> Position {
    match observed.without_activators {
        Some(_) if is_failing_open(observed) => wake(observed, WriteCause::NoActivator),
        _ if observed.is_out_of_reach() => wake(observed, WriteCause::NoActivator),
        absent => Position {
            wanted: Some(0),
            write: None,
            probe: false,
            why: Some(StayReason::AtZero),
            recheck: absent.map(|absent| FAIL_OPEN_AFTER.saturating_sub(absent)),
        },
    }
}

/// Whether there has been nobody to hold requests for too long.
fn is_failing_open(observed: &ObservedWorkload) -> bool {
    observed.without_activators.is_some_and(|absent| absent >= FAIL_OPEN_AFTER)
}

fn wake(observed: &ObservedWorkload, cause: WriteCause) -> Position {
    let decided = observed.decision.as_ref().map_or(0, |d| awake(observed, d.desired));
    let to = first_size(&observed.autoscaler, &observed.settings).max(decided);
    Position {
        wanted: Some(unsigned(to)),
        write: Some(SizeToWrite { to, cause }),
        probe: false,
        why: Some(match cause {
            WriteCause::NotAllowed => StayReason::NotAllowed,
            WriteCause::NoActivator => StayReason::NoActivator,
            _ => StayReason::Requests,
        }),
        recheck: None,
    }
}

/// Sizes that we write where there are pods already: ahead of the HPA while panicking, all of them without one.
fn above_zero(observed: &ObservedWorkload, scale: &Scale) -> Option<SizeToWrite> {
    let decided = observed.decision.as_ref().map(|d| (awake(observed, d.desired), d.panicking));
    match (observed.autoscaler.spec.scaler, decided) {
        (Scaler::Direct, decided) => {
            // Without a decision the bounds still hold.
            let to = decided.map_or_else(|| awake(observed, unsigned(scale.replicas)), |(size, _)| size);
            (to != scale.replicas).then_some(SizeToWrite { to, cause: WriteCause::Direct })
        }
        (Scaler::Hpa, Some((to, true))) => {
            (to > scale.replicas).then_some(SizeToWrite { to, cause: WriteCause::Panic })
        }
        (Scaler::Hpa, _) => None,
    }
}

fn plan(observed: &ObservedWorkload, position: Position, activation: ActiveCondition) -> Plan {
    let excess = observed.decision.as_ref().map(|d| d.excess_burst_capacity);
    // What is on the way to zero, or at it, is not wanted, whether a decision is known or not.
    let wanted = if activation.phase == ActivePhase::Inactive { Some(0) } else { position.wanted };
    Plan {
        activation,
        paused: false,
        write: position.write,
        probe: position.probe,
        mode: sks_mode::wanted(wanted, excess, observed.ready, mode_before(observed)),
        activators: sks_mode::number_of_activators(
            observed.ready,
            pod_capacity(observed),
            &observed.settings,
        ),
        why: position.why,
        recheck: position.recheck,
    }
}

fn without_scale(observed: &ObservedWorkload, before: Option<ActiveCondition>) -> Plan {
    let position = Position { wanted: None, write: None, probe: false, why: None, recheck: None };
    let activation = compute_active_condition(None, observed.ready, min_ready(observed), before);
    plan(observed, position, activation)
}

fn paused(observed: &ObservedWorkload) -> Plan {
    let position = Position { wanted: Some(0), write: None, probe: false, why: None, recheck: None };
    let activation = ActiveCondition { phase: ActivePhase::Inactive, reason: ActiveReason::NoTraffic };
    Plan { paused: true, ..plan(observed, position, activation) }
}

fn machine(
    observed: &ObservedWorkload,
    scale: &Scale,
    before: Option<ActiveCondition>,
    probe: Option<bool>,
) -> zero::ObservedWorkload {
    let conditions = conditions::of(&observed.autoscaler);
    let active = condition(conditions, ACTIVE);
    let proxied_since = observed.proxied_since();
    let proven = condition(conditions, ACTIVATOR_IN_PATH).filter(|c| c.status == "True");
    let just_woken = woken(observed, scale);
    zero::ObservedWorkload {
        replicas: scale.replicas,
        min_replicas: signed(bounds(observed).resting()),
        allowed: allowed(observed),
        demand: demand(observed),
        // Somebody woke it since the last look: it starts anew.
        phase: before.filter(|_| !just_woken).map_or(ActivePhase::Activating, |b| b.phase),
        phase_since: active.filter(|_| !just_woken).map_or(millis(observed), conditions::since),
        proxied_since,
        verified_before: proven.zip(proxied_since).is_some_and(|(c, since)| conditions::since(c) >= since),
        probe,
    }
}

/// The decider's word, beside the activators'.
fn demand(observed: &ObservedWorkload) -> Option<RequestDemand> {
    // Without anybody to hold requests nobody is put to zero, whatever was decided.
    let decision = observed.decision.as_ref().filter(|_| !is_failing_open(observed))?;
    Some(RequestDemand::new(decision, observed.heard?, observed.last_requested))
}

/// When to look again at a workload that the decider calls idle and an activator does not: a decision that is only repeated asks
/// for no look.
fn doubt(observed: &ObservedWorkload) -> Option<Duration> {
    let idle = observed.decision.as_ref()?.idle_since.is_some();
    (idle && demand(observed)?.idle_since.is_none()).then_some(zero::DECISION_LAG)
}

/// At zero, not allowed to be, and not by us: neither do the target's managed fields name us, nor does our own status.
fn is_paused(observed: &ObservedWorkload, scale: &Scale) -> bool {
    scale.replicas <= 0
        && !allowed(observed)
        && scale.writer != Writer::Us
        && !is_parked_at_zero(&observed.autoscaler)
}

/// Whether the workload may be at zero.
pub(super) fn allowed(observed: &ObservedWorkload) -> bool {
    zero::is_allowed(observed.autoscaler.spec.scale_to_zero, &observed.settings)
}

/// What the Active condition said; a reason that is not the table's (paused, say) is no memory of ours.
fn before(observed: &ObservedWorkload) -> Option<ActiveCondition> {
    last_activation(&observed.autoscaler)
}

fn was_at_zero(observed: &ObservedWorkload) -> bool {
    observed.autoscaler.status.as_ref().and_then(|s| s.replicas) == Some(0)
}

fn woken(observed: &ObservedWorkload, scale: &Scale) -> bool {
    was_at_zero(observed) && scale.replicas > 0
}

fn mode_before(observed: &ObservedWorkload) -> Option<SksMode> {
    observed.serverless_service.as_ref().map(|sks| match sks.spec.mode {
        SksMode::Proxy => SksMode::Proxy,
        SksMode::Serve => SksMode::Serve,
    })
}

/// What one pod can carry in all; nothing where the target is none.
fn pod_capacity(observed: &ObservedWorkload) -> f64 {
    observed.autoscaler.spec.target(&observed.settings).map_or(0.0, |target| target.total)
}

/// How many pods must be ready for the workload to be active.
pub(super) fn min_ready(observed: &ObservedWorkload) -> u32 {
    bounds(observed).min_ready(allowed(observed))
}

/// A size for a workload that is awake.
fn awake(observed: &ObservedWorkload, size: u32) -> i32 {
    signed(bounds(observed).awake(size))
}

fn bounds(observed: &ObservedWorkload) -> ScaleBounds {
    let initialized = conditions::is_true(conditions::of(&observed.autoscaler), INITIALIZED);
    let bounds = ScaleBounds::new(&observed.settings, initialized);
    match observed.autoscaler.spec.scaler {
        Scaler::Direct => bounds,
        // Between 1 and N the HPA writes, which knows of no initial size.
        Scaler::Hpa => bounds.without_initial(),
    }
}

fn unsigned(size: i32) -> u32 {
    u32::try_from(size).unwrap_or(0)
}

fn signed(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

fn millis(observed: &ObservedWorkload) -> i64 {
    observed.now.as_millisecond()
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
