//! The stock HPA: one sync of kube-controller-manager for one HorizontalPodAutoscaler.
//!
//! ```text
//! spec.replicas ─► at zero? outside min..max? ─► metrics ─► proposal
//!               ─► stabilization ─► policies, min, max ─► spec.replicas
//! ```
//!
//! Input: the target's replicas and the value of each external metric. Output: the size to write
//! and its reason. The arithmetic is upstream's, in thousandths and doubles, as of 1.34 to 1.37
//! (`pkg/controller/podautoscaler`). API objects and metrics of types other than External with an
//! `averageValue` are left out. This module is independent of the rest of the simulator.
//!
//! Surprising: a proposal within the tolerance is `status.replicas`, not `spec.replicas`; a size
//! outside min..max is corrected at once and without policies; a target at zero is left unchanged.

mod behavior;
mod replica_calculator;
mod sync_reason;

use std::time::Duration;

pub use behavior::{Behavior, PolicyKind, ScalingPolicy, ScalingRules, SelectPolicy};
pub use replica_calculator::{MetricValue, NoMetric, Tolerances, proposal, sum};
pub use sync_reason::SyncReason;

use self::behavior::{ProposalHistory, ScaleEvents, default_limit};

/// Stabilization window of scale-down for an HPA without `behavior`.
pub const DEFAULT_DOWNSCALE_STABILIZATION: Duration = Duration::from_secs(300);

/// The fields of an HPA's spec that affect the size.
#[derive(Clone, Debug, PartialEq)]
pub struct HpaSpec {
    /// `minReplicas`.
    pub min: i32,
    /// `maxReplicas`.
    pub max: i32,
    /// `averageValue` of each metric's target, in thousandths.
    pub targets: Vec<i64>,
    /// `behavior`; `None` selects the older algorithm without policies.
    pub behavior: Option<Behavior>,
}

/// One HPA with its controller's state.
#[derive(Clone, Debug)]
pub struct Hpa {
    spec: HpaSpec,
    history: ProposalHistory,
    events: ScaleEvents,
    /// The condition ScaledToZero: the HPA itself scaled to zero, so it may scale up again.
    scaled_to_zero: bool,
}

/// Input of a sync.
#[derive(Clone, Copy, Debug)]
pub struct ObservedTarget<'a> {
    /// `spec.replicas` of the target.
    pub spec: i32,
    /// `status.replicas` of the target.
    pub status: i32,
    /// Value of each metric, in the order of the targets.
    pub usages: &'a [MetricValue],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncResult {
    /// `spec.replicas` from now on.
    pub replicas: i32,
    /// The reason that explains the size best.
    pub reason: SyncReason,
    /// Whether a metric could not be read, even if the size follows from the others.
    pub failed: bool,
}

// === impl Hpa ===

impl Hpa {
    /// An HPA without history.
    pub fn new(spec: HpaSpec) -> Self {
        Self {
            spec,
            history: ProposalHistory::default(),
            events: ScaleEvents::default(),
            scaled_to_zero: false,
        }
    }

    /// Runs one sync. Assumes that the caller writes the resulting size.
    pub fn sync(&mut self, observed: ObservedTarget<'_>, now: Duration) -> SyncResult {
        self.history.begin(observed.spec, now);
        let sync = self.recommend(observed, now);
        if sync.replicas != observed.spec {
            if self.spec.behavior.is_some() {
                self.events.record(sync.replicas - observed.spec, now);
            }
            self.scaled_to_zero = sync.replicas == 0;
        }
        sync
    }

    fn recommend(&mut self, observed: ObservedTarget<'_>, now: Duration) -> SyncResult {
        let HpaSpec { min, max, .. } = self.spec;
        let spec = observed.spec;
        let at_once = |replicas, reason| SyncResult { replicas, reason, failed: false };
        match spec {
            0 if !self.scaled_to_zero => at_once(0, SyncReason::ScalingDisabled),
            _ if spec > max => at_once(max, SyncReason::AboveMaxReplicas),
            _ if spec < min => at_once(min, SyncReason::BelowMinReplicas),
            _ => self.follow_metrics(observed, now),
        }
    }

    fn follow_metrics(&mut self, observed: ObservedTarget<'_>, now: Duration) -> SyncResult {
        let tolerances = self.spec.behavior.as_ref().map_or_else(Tolerances::default, Behavior::tolerances);
        let proposals: Vec<_> = (self.spec.targets.iter().zip(observed.usages))
            .map(|(target, usage)| usage.map(|usage| proposal(usage, *target, observed.status, tolerances)))
            .collect();
        let failed = proposals.iter().any(Result::is_err);
        // The largest proposal is used. With an unreadable metric the size never decreases.
        match proposals.iter().flatten().max() {
            Some(proposal) if !failed || *proposal >= observed.spec => {
                SyncResult { failed, ..self.normalize(*proposal, observed.spec, now) }
            }
            _ => SyncResult {
                replicas: observed.spec,
                reason: SyncReason::FailedGetExternalMetric,
                failed: true,
            },
        }
    }

    /// Applies stabilization, policies and bounds to a proposal.
    fn normalize(&mut self, proposal: i32, current: i32, now: Duration) -> SyncResult {
        let HpaSpec { min, max, .. } = self.spec;
        let Some(behavior) = &self.spec.behavior else {
            let stabilized = self.history.largest(proposal, DEFAULT_DOWNSCALE_STABILIZATION, now);
            let (replicas, reason) = default_limit(stabilized, current, min, max);
            return SyncResult {
                replicas,
                reason: held(stabilized, proposal).unwrap_or(reason),
                failed: false,
            };
        };
        let stabilized = self.history.stabilize(proposal, current, behavior, now);
        let (replicas, reason) = behavior.limit(stabilized, current, &self.events, min, max, now);
        SyncResult { replicas, reason: held(stabilized, proposal).unwrap_or(reason), failed: false }
    }
}

/// The reason if stabilization changed a proposal.
fn held(stabilized: i32, proposal: i32) -> Option<SyncReason> {
    match stabilized {
        _ if stabilized > proposal => Some(SyncReason::ScaleDownStabilized),
        _ if stabilized < proposal => Some(SyncReason::ScaleUpStabilized),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
