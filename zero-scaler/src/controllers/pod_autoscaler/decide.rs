//! Decides what to write for one workload. Pure: an observation in, a plan out.
//!
//! Combines the rules of crate `autoscaler`: the scale-to-zero sequence, the condition Active, the
//! modes Proxy and Serve, and the writer of each size. The HPA writes sizes from 1 to N. The
//! zero-scaler writes from and to zero, above the HPA's size in a panic, and every size of a
//! workload without HPA. Beside another autoscaler it writes only from and to zero (table in
//! ARCHITECTURE.md).

mod route;
mod size_to_write;

use std::time::Duration;

use autoscaler::api::{Scaler, SksMode, condition};
use autoscaler::scaling::active_condition::{ActiveCondition, ActiveReason, compute_active_condition};
use autoscaler::scaling::scale_bounds::ScaleBounds;
use autoscaler::scaling::scale_to_zero::{
    self as zero, ActivePhase, RequestDemand, ScaleToZeroStep, StayReason,
};

pub(super) use self::size_to_write::{SizeToWrite, WriteCause};
use super::learning;
use super::observe::ObservedWorkload;
use crate::cache::cached_target::scale::{Scale, Writer};
use crate::cache::last_activation::{ACTIVE, is_parked_at_zero, last_activation};
use crate::kubernetes::conditions::{self, INITIALIZED};
use crate::scaling::workloads_at_zero::first_size;

/// Time without any activator after which workloads at zero are woken. A rolling update of a single
/// activator takes less.
const FAIL_OPEN_AFTER: Duration = Duration::from_secs(10);
/// The condition's type.
pub(super) const ACTIVATOR_IN_PATH: &str = "ActivatorInPath";

/// What to write for a workload, and when to reconcile it again.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// Content of the condition Active.
    pub(super) activation: ActiveCondition,
    /// The size stays at 0, and requests get 503, by a pause or by another writer.
    pub(super) paused: bool,
    /// The size to write, if any.
    pub(super) write: Option<SizeToWrite>,
    /// The activator path must be probed before the size can be set to 0.
    pub(super) probe: bool,
    /// It must be checked whether what comes back from zero would serve.
    pub(super) check: bool,
    /// Where the Service should send requests.
    pub(super) mode: SksMode,
    /// Number of activators in Proxy mode.
    pub(super) activators: u32,
    /// Requests that activators send to a pod without a container concurrency at a time.
    pub(super) temporary_limit: Option<u32>,
    /// Why the workload stays at its size; `None` while the scale-to-zero sequence proceeds.
    pub(super) why: Option<StayReason>,
    /// When to reconcile again.
    pub(super) recheck: Option<Duration>,
}

/// The state of the scale-to-zero sequence.
struct SequencePosition {
    /// Pods wanted; 0 from the start of the sequence; `None` without data.
    wanted: Option<u32>,
    write: Option<SizeToWrite>,
    probe: bool,
    check: bool,
    why: Option<StayReason>,
    recheck: Option<Duration>,
}

const NO_CHANGE: SequencePosition =
    SequencePosition { wanted: None, write: None, probe: false, check: false, why: None, recheck: None };

/// Plans one reconcile. `probe` is the result of its activator path probe, if one was sent.
pub(super) fn decide(observed: &ObservedWorkload, probe: Option<bool>) -> Plan {
    let before = last_activation(&observed.autoscaler);
    let Ok(scale) = &observed.scale else { return without_scale(observed, before) };
    if is_paused(observed, scale) {
        return paused(observed);
    }
    let mut position = sequence_position(observed, scale, before, probe);
    if position.write.is_none() && scale.replicas > 0 && position.wanted != Some(0) {
        position.write = write_above_zero(observed, scale);
    }
    // Two workloads of one target would revert each other's sizes.
    position.write = position.write.filter(|_| observed.target_owner.is_none() && !observed.is_paused());
    let left_zero = has_left_zero(observed, scale);
    let before = before.filter(|b| !(left_zero && b.phase == ActivePhase::Inactive));
    let activation = compute_active_condition(position.wanted, observed.ready, min_ready(observed), before);
    plan(observed, position, activation)
}

fn sequence_position(
    observed: &ObservedWorkload,
    scale: &Scale,
    before: Option<ActiveCondition>,
    probe: Option<bool>,
) -> SequencePosition {
    if observed.is_paused() {
        return SequencePosition { wanted: Some(unsigned(scale.replicas)), ..NO_CHANGE };
    }
    let staying = |wanted, why, recheck| SequencePosition { wanted, why: Some(why), recheck, ..NO_CHANGE };
    let proceeding = |write, probe| SequencePosition { wanted: Some(0), write, probe, ..NO_CHANGE };
    let desired = observed.decision.as_ref().map(|d| d.desired);
    let activating = before.is_some_and(|b| b.phase == ActivePhase::Activating);
    let wanted = bounds(observed).clamp(desired, activating).map(|pods| pods.max(1));
    let inactive = before.is_some_and(|b| b.phase == ActivePhase::Inactive);
    match zero::next_step(
        &sequence_input(observed, scale, before, probe),
        &observed.settings,
        millis(observed),
    ) {
        ScaleToZeroStep::Stay { reason: StayReason::AtZero, .. } => at_zero(observed),
        ScaleToZeroStep::Stay { reason: StayReason::NoDecision, recheck } if is_failing_open(observed) => {
            staying(wanted, StayReason::NoActivator, recheck)
        }
        ScaleToZeroStep::Stay { reason: StayReason::NoDecision, recheck } => {
            staying(wanted, StayReason::NoDecision, recheck)
        }
        ScaleToZeroStep::Stay { reason: StayReason::Requests, .. } => {
            staying(wanted, StayReason::Requests, recheck_idle(observed))
        }
        ScaleToZeroStep::Stay { reason: why, recheck }
            if inactive && scale.replicas > 0 && !has_left_zero(observed, scale) =>
        {
            staying(Some(0), why, recheck)
        }
        ScaleToZeroStep::Stay { reason: why, recheck } => staying(wanted, why, recheck),
        ScaleToZeroStep::GoInactive | ScaleToZeroStep::ProbeActivator | ScaleToZeroStep::ScaleToZero
            if observed.is_reverted() =>
        {
            staying(Some(wanted.unwrap_or(bounds(observed).resting())), StayReason::OtherWriter, None)
        }
        ScaleToZeroStep::GoInactive => proceeding(None, false),
        ScaleToZeroStep::ProbeActivator => proceeding(None, true),
        ScaleToZeroStep::CheckWake => SequencePosition { check: true, ..proceeding(None, false) },
        ScaleToZeroStep::ScaleToZero => {
            proceeding(Some(SizeToWrite { to: 0, cause: WriteCause::Idle }), false)
        }
        ScaleToZeroStep::Reactivate if scale.replicas > 0 => {
            let wanted = Some(wanted.unwrap_or(bounds(observed).resting()));
            let why = match &observed.wake_check {
                _ if observed.is_scheduled() => StayReason::Scheduled,
                Some(Err(_)) => StayReason::WakeBlocked,
                _ => StayReason::Requests,
            };
            staying(wanted, why, recheck_idle(observed))
        }
        ScaleToZeroStep::Reactivate => wake(observed, wake_cause(observed)),
    }
}

fn wake_cause(observed: &ObservedWorkload) -> WriteCause {
    match allowed(observed) {
        false => WriteCause::NotAllowed,
        true if observed.is_scheduled() => WriteCause::Scheduled,
        true => WriteCause::Wanted,
    }
}

/// A workload at zero without requests stays there while an activator can hold the next one.
fn at_zero(observed: &ObservedWorkload) -> SequencePosition {
    match observed.without_activators {
        Some(_) if is_failing_open(observed) => wake(observed, WriteCause::NoActivator),
        _ if observed.bypasses_activators() => wake(observed, WriteCause::NoActivator),
        absent => SequencePosition {
            wanted: Some(0),
            why: Some(StayReason::AtZero),
            recheck: absent.map(|absent| FAIL_OPEN_AFTER.saturating_sub(absent)),
            ..NO_CHANGE
        },
    }
}

/// Whether there has been no activator for so long that workloads are kept above zero.
fn is_failing_open(observed: &ObservedWorkload) -> bool {
    observed.without_activators.is_some_and(|absent| absent >= FAIL_OPEN_AFTER)
}

fn wake(observed: &ObservedWorkload, cause: WriteCause) -> SequencePosition {
    // The decision is on a metric on which another autoscaler does not scale.
    let decision = observed.decision.as_ref().filter(|_| observed.scaler() != Scaler::Other);
    let decided = decision.map_or(0, |d| size_above_zero(observed, d.desired));
    let to = first_size(&observed.autoscaler, &observed.settings).max(decided);
    SequencePosition {
        wanted: Some(unsigned(to)),
        write: Some(SizeToWrite { to, cause }),
        why: Some(match cause {
            WriteCause::NotAllowed => StayReason::NotAllowed,
            WriteCause::Scheduled => StayReason::Scheduled,
            WriteCause::NoActivator => StayReason::NoActivator,
            _ => StayReason::Requests,
        }),
        ..NO_CHANGE
    }
}

/// The size to write while there are pods: ahead of the HPA in a panic, and every size without an
/// HPA.
fn write_above_zero(observed: &ObservedWorkload, scale: &Scale) -> Option<SizeToWrite> {
    if let Some(to) = size_beside_unresponsive_nodes(observed, scale) {
        return Some(SizeToWrite { to, cause: WriteCause::UnresponsiveNode });
    }
    let decided = observed.decision.as_ref().map(|d| (size_above_zero(observed, d.desired), d.panicking));
    match (observed.scaler(), decided) {
        (Scaler::Direct, decided) => {
            // The bounds apply without a decision as well.
            let to =
                decided.map_or_else(|| size_above_zero(observed, unsigned(scale.replicas)), |(size, _)| size);
            // While none is ready, Kubernetes would remove the newest pod, which may be the one
            // that starts.
            let removes_starting_pod = to < scale.replicas && observed.ready == 0;
            (to != scale.replicas && !removes_starting_pod)
                .then_some(SizeToWrite { to, cause: WriteCause::Direct })
        }
        (Scaler::Hpa, Some((to, true))) => {
            (to > scale.replicas).then_some(SizeToWrite { to, cause: WriteCause::Panic })
        }
        (Scaler::Hpa | Scaler::Other, _) => None,
    }
}

/// One pod more than those that are on unresponsive nodes, within the bounds. The HPA, or a later
/// decision, removes one that is not ready again.
fn size_beside_unresponsive_nodes(observed: &ObservedWorkload, scale: &Scale) -> Option<i32> {
    let pods = observed.pods_on_unresponsive_nodes;
    let is_lost = pods > 0 && observed.ready == 0 && signed(pods) == scale.replicas;
    let is_ours = observed.scaler() != Scaler::Other;
    let to = size_above_zero(observed, pods.saturating_add(1));
    (is_lost && is_ours && to > scale.replicas).then_some(to)
}

fn plan(observed: &ObservedWorkload, position: SequencePosition, activation: ActiveCondition) -> Plan {
    // Inactive workloads need Proxy mode, with or without a decision.
    let wanted = if activation.phase == ActivePhase::Inactive { Some(0) } else { position.wanted };
    Plan {
        activation,
        paused: false,
        write: position.write,
        probe: position.probe,
        check: position.check,
        mode: route::mode(observed, wanted),
        activators: route::number_of_activators(observed),
        temporary_limit: learning::temporary_limit(observed),
        why: position.why,
        recheck: position.recheck,
    }
}

fn without_scale(observed: &ObservedWorkload, before: Option<ActiveCondition>) -> Plan {
    let activation = compute_active_condition(None, observed.ready, min_ready(observed), before);
    plan(observed, NO_CHANGE, activation)
}

fn paused(observed: &ObservedWorkload) -> Plan {
    let position = SequencePosition { wanted: Some(0), ..NO_CHANGE };
    let activation = ActiveCondition { phase: ActivePhase::Inactive, reason: ActiveReason::NoTraffic };
    Plan { paused: true, ..plan(observed, position, activation) }
}

fn sequence_input(
    observed: &ObservedWorkload,
    scale: &Scale,
    before: Option<ActiveCondition>,
    probe: Option<bool>,
) -> zero::ObservedWorkload {
    let conditions = conditions::of(&observed.autoscaler);
    let active = condition(conditions, ACTIVE);
    let proxied_since = observed.proxied_since();
    let verified = condition(conditions, ACTIVATOR_IN_PATH).filter(|c| c.status == "True");
    let left_zero = has_left_zero(observed, scale);
    zero::ObservedWorkload {
        replicas: scale.replicas,
        min_replicas: signed(bounds(observed).resting()),
        allowed: allowed(observed),
        scheduled: observed.is_scheduled(),
        demand: demand(observed),
        activators_report: observed.silent_activators.is_none(),
        // After a wake since the last reconcile the sequence starts again.
        phase: before.filter(|_| !left_zero).map_or(ActivePhase::Activating, |b| b.phase),
        phase_since: active.filter(|_| !left_zero).map_or(millis(observed), conditions::since),
        proxied_since,
        verified_before: verified.zip(proxied_since).is_some_and(|(c, since)| conditions::since(c) >= since),
        probe,
        seen: observed.seen,
        wakeable: observed.wake_check.as_ref().map(Result::is_ok),
    }
}

/// Combines the decision with the requests that activators reported.
fn demand(observed: &ObservedWorkload) -> Option<RequestDemand> {
    // Without activators no workload goes to zero, whatever the decision.
    let decision = observed.decision.as_ref().filter(|_| !is_failing_open(observed))?;
    Some(RequestDemand::new(
        decision,
        &observed.settings,
        observed.decision_received?,
        observed.last_requested,
    ))
}

/// When to reconcile a workload again that is idle for the decider and busy for an activator. A
/// repeated decision triggers no reconcile.
fn recheck_idle(observed: &ObservedWorkload) -> Option<Duration> {
    let idle = observed.decision.as_ref()?.idle_since.is_some();
    (idle && demand(observed)?.idle_since.is_none()).then_some(zero::DECISION_LAG)
}

/// At zero by the annotation, or by another writer although scale-to-zero is off: neither the
/// managed fields nor the status show a write of the zero-scaler, and no pause has ended.
fn is_paused(observed: &ObservedWorkload, scale: &Scale) -> bool {
    if scale.replicas > 0 || observed.is_paused() {
        return scale.replicas <= 0;
    }
    !allowed(observed)
        && observed.settings.scale.pause.end().is_none()
        && scale.writer != Writer::Us
        && !is_parked_at_zero(&observed.autoscaler)
}

/// Whether the workload may be at zero.
pub(super) fn allowed(observed: &ObservedWorkload) -> bool {
    zero::is_allowed(observed.autoscaler.spec.scale_to_zero, &observed.settings)
}

fn has_left_zero(observed: &ObservedWorkload, scale: &Scale) -> bool {
    let status = observed.autoscaler.status.as_ref();
    status.and_then(|status| status.replicas) == Some(0) && scale.replicas > 0
}

/// Number of pods that must be ready for the workload to be active.
pub(super) fn min_ready(observed: &ObservedWorkload) -> u32 {
    bounds(observed).min_ready(allowed(observed))
}

/// The size within the bounds for a workload above zero.
fn size_above_zero(observed: &ObservedWorkload, size: u32) -> i32 {
    signed(bounds(observed).above_zero(size))
}

fn bounds(observed: &ObservedWorkload) -> ScaleBounds {
    let initialized = conditions::is_true(conditions::of(&observed.autoscaler), INITIALIZED);
    let bounds = ScaleBounds::new(&observed.settings, initialized);
    match observed.scaler() {
        Scaler::Direct => bounds,
        // The HPA writes sizes from 1 to N and has no initial size.
        Scaler::Hpa | Scaler::Other => bounds.without_initial(),
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
mod tests;
