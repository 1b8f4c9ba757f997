//! Steps that are no reconciles: requests, writes that land, reports and decisions.

use super::rules::Rules;
use super::state::{Mode, ReceivedDecision, Request, RequestPath, Silence, State, Violation};

/// Ticks within which a held request gets a size.
const LONGEST_HELD: u8 = 3;

pub(super) fn begin(state: &mut State, path: RequestPath) {
    state.request = Some(Request { path, is_old: false, held: 0 });
}

/// A report of a request arrives at a zero-scaler, which wakes the workload.
pub(super) fn report_request(state: &mut State, scaler: usize) {
    state.scalers[scaler].requested = Some(0);
    if state.scalers[scaler].size == 0 && state.size == 0 {
        state.set_size(1);
    }
}

/// The write of 0 lands, if its precondition holds.
pub(super) fn land(state: &mut State) {
    if state.pending.take() != Some(true) {
        return;
    }
    let is_exempt = |request: &Request| {
        let is_given_up = |silence: Silence| silence == Silence::TwoDrains;
        request.path == RequestPath::B
            && is_given_up(state.silence[0])
            && is_given_up(state.silence[state.leader + 1])
    };
    if state.request.as_ref().is_some_and(|request| request.is_old && !is_exempt(request)) {
        state.violation = Some(Violation::RequestEnded);
    }
    state.set_size(0);
    // The programs read a size that they just wrote from the API server.
    let leader = &mut state.scalers[state.leader];
    (leader.size, leader.is_current) = (0, true);
    check_nodes(state);
}

/// Nodes that lead to pods at zero, which are behind for a moment at most when this is called.
pub(super) fn check_nodes(state: &mut State) {
    if state.size == 0 && state.nodes.contains(&Mode::Serve) {
        state.violation = Some(Violation::NodeBypassesActivators);
    }
}

/// A tick passes. `reached`: the receivers that get the report of B; `decided`: the zero-scalers
/// that get the decision.
pub(super) fn tick(rules: &Rules, state: &mut State, reached: [bool; 3], decided: [bool; 2]) {
    state.age();
    if let Some(request) = &mut state.request {
        request.is_old = true;
    }
    for (silence, reached) in state.silence.iter_mut().zip(reached) {
        *silence = if reached { Silence::None } else { (*silence).max(Silence::Short) };
    }
    report(state, reached);
    decide(rules, state, reached[0], decided);
}

/// Counts the ticks for which the request is held.
pub(super) fn hold(state: &mut State, is_connected: bool) {
    let Some(request) = &mut state.request else { return };
    let is_held = state.size == 0 && request.path == RequestPath::B;
    request.held = if is_held { request.held + u8::from(is_connected) } else { 0 };
    if request.held > LONGEST_HELD {
        state.violation = Some(Violation::HeldForLong);
    }
}

fn report(state: &mut State, reached: [bool; 3]) {
    let [_, first, second] = reached;
    let path = state.request.map(|request| request.path);
    for (scaler, is_reached) in [first, second].into_iter().enumerate() {
        if path == Some(RequestPath::B) && is_reached {
            report_request(state, scaler);
        }
    }
}

fn decide(rules: &Rules, state: &mut State, is_reached: bool, decided: [bool; 2]) {
    let is_busy = match state.request.map(|request| request.path) {
        None => false,
        Some(RequestPath::Direct) => true,
        Some(RequestPath::B) => is_reached,
    };
    let is_complete = rules.of(state.silence[0]).is_complete;
    let idle = state.adapter.idle.or(Some(0)).filter(|_| !is_busy && is_complete);
    state.adapter.idle = idle;
    let (ready, misses_reports) = (state.size, !is_complete);
    for (scaler, is_received) in state.scalers.iter_mut().zip(decided) {
        if is_received {
            scaler.decision = Some(ReceivedDecision { idle, ready, misses_reports, is_late: false });
            // A later start of idleness means that there was a request.
            scaler.idle = idle.map(|since| match scaler.idle {
                Some((before, seen)) if since + 1 >= before => (since, seen),
                _ => (since, 0),
            });
        } else {
            let late = scaler.decision.filter(|decision| !decision.is_late);
            scaler.decision = late.map(|decision| ReceivedDecision { is_late: true, ..decision });
        }
    }
}
