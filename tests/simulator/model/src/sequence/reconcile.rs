//! One reconcile of a zero-scaler: what it observes in its caches, the programs' rules, and what it
//! writes.

use std::time::Duration;

use autoscaler::routing::sks_mode;
use autoscaler::scaling::active_condition::{ActiveCondition, ActiveReason, compute_active_condition};
use autoscaler::scaling::scale_to_zero::{
    ActivePhase, ObservedWorkload, RequestDemand, ScaleToZeroStep, SeenFor, StayReason, next_step,
};
use autoscaler::{Decision, Key};

use super::rules::Rules;
use super::state::{Mode, Objects, PERIOD_MS, ReceivedDecision, Stamp, State, TICK_MS, ZeroScaler};

/// Activators in the slices.
const ACTIVATORS: u32 = 2;

/// Reconciles the PodAutoscaler, as its leader.
pub(super) fn pod_autoscaler(rules: &Rules, state: &mut State) {
    let index = state.leader;
    let silence = state.silence[index + 1];
    // Each zero-scaler runs on a node of its own.
    let node = state.nodes[index];
    let scaler = &mut state.scalers[index];
    observe_times(scaler);
    let adapter_reports = scaler.decision.is_none_or(|decision| !decision.misses_reports);
    let activators_report = adapter_reports && rules.of(silence).is_complete;
    let observed = observe(rules, scaler, state.adapter.clock.skew(), activators_report);
    let now = scaler.now();
    let mut step = next_step(&observed, &rules.settings, now);
    if step == ScaleToZeroStep::ProbeActivator {
        let probe = Some(node == Mode::Proxy);
        step = next_step(&ObservedWorkload { probe, ..observed }, &rules.settings, now);
    }
    let desired = scaler.decision.map(desired);
    let is_inactive = observed.phase == ActivePhase::Inactive;
    let wanted = match step {
        ScaleToZeroStep::Stay { reason: StayReason::NoDecision, .. } => desired,
        ScaleToZeroStep::Stay { reason: StayReason::AtZero, .. } => Some(0),
        ScaleToZeroStep::Stay { reason: StayReason::Requests, .. } => desired.map(|pods| pods.max(1)),
        ScaleToZeroStep::Stay { .. } if is_inactive => Some(0),
        ScaleToZeroStep::Stay { .. } => desired.map(|pods| pods.max(1)),
        ScaleToZeroStep::Reactivate => Some(desired.unwrap_or(1).max(1)),
        ScaleToZeroStep::GoInactive
        | ScaleToZeroStep::ProbeActivator
        | ScaleToZeroStep::CheckWake
        | ScaleToZeroStep::ScaleToZero => Some(0),
    };
    let ready = u32::from(scaler.size);
    let before = ActiveCondition { phase: observed.phase, reason: ActiveReason::NoTraffic };
    let phase = compute_active_condition(wanted, ready, 1, Some(before)).phase;
    let cached = scaler.objects;
    let mut written = cached;
    written.at_zero = scaler.size == 0;
    if phase != cached.phase.into() {
        (written.phase, written.phase_since) = (phase.into(), scaler.stamp());
    }
    let wanted = if phase == ActivePhase::Inactive { Some(0) } else { wanted };
    let excess = scaler.decision.map(|_| 1);
    written.mode = sks_mode::wanted(wanted, excess, ready, Some(cached.mode.into())).into();
    // Only differences from the cache are written.
    let status = |objects: Objects| (objects.phase, objects.phase_since, objects.at_zero);
    if status(written) != status(cached) {
        (state.objects.phase, state.objects.phase_since) = (written.phase, written.phase_since);
        state.objects.at_zero = written.at_zero;
    }
    if written.mode != cached.mode {
        state.objects.mode = written.mode;
    }
    let is_current = scaler.is_current;
    match step {
        ScaleToZeroStep::ScaleToZero => state.pending = Some(is_current),
        ScaleToZeroStep::Reactivate if ready == 0 && is_current => state.set_size(1),
        _ => {}
    }
}

/// Reconciles the ServerlessService, as its leader: slices, then the status.
pub(super) fn serverless_service(state: &mut State) {
    let scaler = &state.scalers[state.leader];
    let cached = scaler.objects;
    let mode = sks_mode::in_force(cached.mode.into(), scaler.size.into(), ACTIVATORS).into();
    let proxied_since = match mode {
        Mode::Proxy => Some(cached.proxied_since.unwrap_or(scaler.stamp())),
        Mode::Serve => None,
    };
    state.slices = mode;
    if proxied_since != cached.proxied_since {
        state.objects.proxied_since = proxied_since;
    }
}

/// Records the first observation of the times in the objects, as the programs' `FirstSeen` does.
fn observe_times(scaler: &mut ZeroScaler) {
    let times = [Some(scaler.objects.phase_since), scaler.objects.proxied_since];
    for (seen, time) in scaler.seen.iter_mut().zip(times) {
        if seen.map(|(time, _)| time) != time {
            *seen = time.map(|time| (time, 0));
        }
    }
}

fn observe(
    rules: &Rules,
    scaler: &ZeroScaler,
    adapter_skew: i64,
    activators_report: bool,
) -> ObservedWorkload {
    let left_zero = scaler.objects.at_zero && scaler.size > 0;
    let phase = if left_zero { ActivePhase::Activating } else { scaler.objects.phase.into() };
    let phase_since = if left_zero { scaler.now() } else { scaler.objects.phase_since.millis() };
    ObservedWorkload {
        replicas: scaler.size.into(),
        min_replicas: 1,
        allowed: true,
        scheduled: false,
        demand: scaler.decision.map(|received| demand(rules, scaler, received, adapter_skew)),
        activators_report,
        phase,
        phase_since,
        proxied_since: scaler.objects.proxied_since.map(Stamp::millis),
        verified_before: false,
        probe: None,
        seen: if rules.both_clocks { seen_for(scaler) } else { SeenFor::ALWAYS },
        wakeable: Some(true),
    }
}

fn seen_for(scaler: &ZeroScaler) -> SeenFor {
    let ticks = |age: Option<u8>| {
        age.map_or(Duration::ZERO, |age| Duration::from_millis(u64::from(age) * TICK_MS.unsigned_abs()))
    };
    let [phase, proxied] = scaler.seen.map(|seen| ticks(seen.map(|(_, age)| age)));
    SeenFor { idle: ticks(scaler.idle.map(|(_, seen)| seen)), phase, proxied }
}

fn demand(
    rules: &Rules,
    scaler: &ZeroScaler,
    received: ReceivedDecision,
    adapter_skew: i64,
) -> RequestDemand {
    let ago = |age: u8| scaler.now() - i64::from(age) * TICK_MS;
    let decision = Decision {
        key: Key::new("", ""),
        desired: desired(received),
        panicking: false,
        held: false,
        excess_burst_capacity: 1,
        stable: 0.0,
        panic: 0.0,
        ready: received.ready.into(),
        idle_since: received.idle.map(|age| adapter_skew - i64::from(age) * TICK_MS),
        decided_at: 0,
        learning: None,
        hpa_lag: None,
    };
    let received_at = ago(received.is_late.into());
    RequestDemand::new(&decision, &rules.settings, received_at, scaler.requested.map(ago))
}

/// The decision's number of pods: 0 after a window without requests.
fn desired(received: ReceivedDecision) -> u32 {
    let is_zero = received.idle.is_some_and(|age| i64::from(age) * TICK_MS >= PERIOD_MS);
    u32::from(!is_zero)
}
