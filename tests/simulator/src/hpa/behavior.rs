//! `behavior`: limits on the rate of change, and stabilization windows.
//!
//! Policies limit the change against the size at the start of their period. That size is computed
//! from the HPA's own events, so writes of others change the current size but do not count against
//! the limit. Stabilization considers only the HPA's own proposals.

use std::collections::VecDeque;
use std::time::Duration;

use super::replica_calculator::Tolerances;
use super::sync_reason::SyncReason;

/// The longest stabilization window and the longest policy period that the API allows.
const MAX_PERIOD: Duration = Duration::from_secs(3600);

/// `spec.behavior` with all defaults set.
#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    /// `scaleUp`.
    pub up: ScalingRules,
    /// `scaleDown`.
    pub down: ScalingRules,
}

/// The rules of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingRules {
    /// `stabilizationWindowSeconds`.
    pub stabilization: Duration,
    /// `selectPolicy`.
    pub select: SelectPolicy,
    /// `policies`.
    pub policies: Vec<ScalingPolicy>,
    /// `tolerance`; `None` is the controller's flag.
    pub tolerance: Option<f64>,
}

/// Selects the effective policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectPolicy {
    /// The policy with the largest change.
    Max,
    /// The policy with the smallest change.
    Min,
    /// No change in this direction.
    Disabled,
}

/// A limit of the change in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalingPolicy {
    /// Unit of `value`.
    pub kind: PolicyKind,
    /// Limit in this unit.
    pub value: i32,
    /// Length of the period.
    pub period: Duration,
}

/// Unit of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    Pods,
    /// Percent of the size at the start of the period.
    Percent,
}

/// Proposals of the last hour.
#[derive(Clone, Debug, Default)]
pub(super) struct ProposalHistory {
    proposals: VecDeque<(Duration, i32)>,
}

/// The HPA's changes of the last hour, positive and negative.
#[derive(Clone, Debug, Default)]
pub(super) struct ScaleEvents {
    changes: VecDeque<(Duration, i32)>,
}

// === impl Behavior ===

impl Default for Behavior {
    /// The API's defaults for an HPA with an empty behavior.
    fn default() -> Self {
        let period = Duration::from_secs(15);
        let percent = ScalingPolicy { kind: PolicyKind::Percent, value: 100, period };
        let rules = |stabilization, policies| ScalingRules {
            stabilization: Duration::from_secs(stabilization),
            select: SelectPolicy::Max,
            policies,
            tolerance: None,
        };
        let pods = ScalingPolicy { kind: PolicyKind::Pods, value: 4, period };
        Self { up: rules(0, vec![pods, percent]), down: rules(300, vec![percent]) }
    }
}

impl Behavior {
    /// The behavior with which an HPA follows a windowed metric as the KPA does. `scale_down_delay`
    /// is the KPA's setting `scale-down-delay`.
    pub fn like_the_kpa(scale_down_delay: Duration) -> Self {
        let policy = |kind, value| ScalingPolicy { kind, value, period: Duration::from_secs(15) };
        let rules = |stabilization, policies| ScalingRules {
            stabilization,
            select: SelectPolicy::Max,
            policies,
            tolerance: Some(0.0),
        };
        let up = vec![policy(PolicyKind::Percent, 99_900), policy(PolicyKind::Pods, 1000)];
        let down = vec![policy(PolicyKind::Percent, 50)];
        Self { up: rules(Duration::ZERO, up), down: rules(scale_down_delay, down) }
    }

    pub(super) fn tolerances(&self) -> Tolerances {
        let flag = Tolerances::default();
        Tolerances {
            up: self.up.tolerance.unwrap_or(flag.up),
            down: self.down.tolerance.unwrap_or(flag.down),
        }
    }

    /// Limits `desired` by the policies and min..max.
    pub(super) fn limit(
        &self,
        desired: i32,
        current: i32,
        events: &ScaleEvents,
        min: i32,
        max: i32,
        now: Duration,
    ) -> (i32, SyncReason) {
        if desired > current {
            let limit = self.up.up_limit(current, events, now).max(current);
            let (most, reason) = if max > limit {
                (limit, SyncReason::ScaleUpLimit)
            } else {
                (max, SyncReason::TooManyReplicas)
            };
            if desired > most {
                return (most, reason);
            }
        } else if desired < current {
            let limit = self.down.down_limit(current, events, now).min(current);
            let (least, reason) = if min < limit {
                (limit, SyncReason::ScaleDownLimit)
            } else {
                (min, SyncReason::TooFewReplicas)
            };
            if desired < least {
                return (least, reason);
            }
        }
        (desired, SyncReason::DesiredWithinRange)
    }
}

// === impl ScalingRules ===

impl ScalingRules {
    /// The largest allowed size.
    pub(super) fn up_limit(&self, current: i32, events: &ScaleEvents, now: Duration) -> i32 {
        let limits = self.policies.iter().map(|policy| {
            let start = events.size_before(current, policy.period, now);
            match policy.kind {
                PolicyKind::Pods => start.saturating_add(policy.value),
                PolicyKind::Percent => {
                    (f64::from(start) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32
                }
            }
        });
        match self.select {
            SelectPolicy::Max => limits.max(),
            SelectPolicy::Min => limits.min(),
            SelectPolicy::Disabled => None,
        }
        .unwrap_or(current)
    }

    /// The smallest allowed size.
    pub(super) fn down_limit(&self, current: i32, events: &ScaleEvents, now: Duration) -> i32 {
        let limits = self.policies.iter().map(|policy| {
            let start = events.size_before(current, policy.period, now);
            match policy.kind {
                PolicyKind::Pods => start.saturating_sub(policy.value),
                PolicyKind::Percent => (f64::from(start) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
            }
        });
        match self.select {
            SelectPolicy::Max => limits.min(),
            SelectPolicy::Min => limits.max(),
            SelectPolicy::Disabled => None,
        }
        .unwrap_or(current)
    }
}

// === impl ProposalHistory ===

impl ProposalHistory {
    /// Records the current size as a proposal if there is none, as a restarted controller does.
    pub(super) fn begin(&mut self, current: i32, now: Duration) {
        if self.proposals.is_empty() {
            self.record(current, now);
        }
    }

    /// Moves `current` only as far as all proposals in the windows allow, `proposal` included.
    pub(super) fn stabilize(
        &mut self,
        proposal: i32,
        current: i32,
        behavior: &Behavior,
        now: Duration,
    ) -> i32 {
        let up = self.within(behavior.up.stabilization, now).fold(proposal, i32::min);
        let down = self.within(behavior.down.stabilization, now).fold(proposal, i32::max);
        self.record(proposal, now);
        current.max(up).min(down)
    }

    /// The largest proposal in the window: stabilization without `behavior`.
    pub(super) fn largest(&mut self, proposal: i32, window: Duration, now: Duration) -> i32 {
        let largest = self.within(window, now).fold(proposal, i32::max);
        self.record(proposal, now);
        largest
    }

    pub(super) fn record(&mut self, proposal: i32, now: Duration) {
        self.proposals.push_back((now, proposal));
        // Keeps at least one entry: `begin` records a proposal only for an empty history.
        while self.proposals.len() > 1 && self.proposals.front().is_some_and(|(at, _)| is_past(*at, now)) {
            self.proposals.pop_front();
        }
    }

    fn within(&self, window: Duration, now: Duration) -> impl Iterator<Item = i32> {
        self.proposals.iter().filter(move |(at, _)| *at + window > now).map(|(_, proposal)| *proposal)
    }
}

// === impl ScaleEvents ===

impl ScaleEvents {
    pub(super) fn record(&mut self, change: i32, now: Duration) {
        self.changes.push_back((now, change));
        while self.changes.front().is_some_and(|(at, _)| is_past(*at, now)) {
            self.changes.pop_front();
        }
    }

    /// The size at the start of a period: `current` without the HPA's own changes since then.
    fn size_before(&self, current: i32, period: Duration, now: Duration) -> i32 {
        let changes = self.changes.iter().filter(|(at, _)| *at + period > now).map(|(_, change)| *change);
        current.saturating_sub(changes.sum())
    }
}

fn is_past(at: Duration, now: Duration) -> bool {
    at + MAX_PERIOD < now
}

/// Limits without `behavior`: twice the size or 4, whichever is larger; and min..max.
pub(super) fn default_limit(desired: i32, current: i32, min: i32, max: i32) -> (i32, SyncReason) {
    let limit = current.saturating_mul(2).max(4);
    let (most, reason) =
        if max > limit { (limit, SyncReason::ScaleUpLimit) } else { (max, SyncReason::TooManyReplicas) };
    match desired {
        _ if desired < min => (min, SyncReason::TooFewReplicas),
        _ if desired > most => (most, reason),
        _ => (desired, SyncReason::DesiredWithinRange),
    }
}
