//! Zero-scaler: which sizes it may write, and where requests are routed.
//!
//! The rules are those of `autoscaler`: scale-to-zero sequence, Active condition, Proxy or Serve.
//! This module combines them as the zero-scaler does, without API objects.
//! [`reconcile`](ZeroScaler::reconcile) observes, decides and returns what to write. Its state
//! between two calls is what the real one keeps in status.

use autoscaler::Decision;
use autoscaler::routing::sks_mode::{self, SksMode};
use autoscaler::scaling::active_condition::{ActiveCondition, compute_active_condition};
use autoscaler::scaling::scale_to_zero::{
    self as zero, ActivePhase, RequestDemand, ScaleToZeroStep, StayReason,
};
use autoscaler::settings::Settings;

use crate::clock::{Time, unix_millis};
use crate::scenario::{Scaler, Scenario};
use crate::workload::replica_set::Writer;

/// The zero-scaler's state for the workload.
#[derive(Debug)]
pub struct ZeroScaler {
    settings: Settings,
    scaler: Scaler,
    scale_to_zero: bool,
    min: u32,
    max: u32,
    decision: Option<Decision>,
    /// Whether activators limit the requests of a pod.
    limits_pods: bool,
    /// Time of an activator's last report of requests.
    last_request_at: Option<i64>,
    active: Option<(ActiveCondition, i64)>,
    /// The last mode, and the time since when the slices contain activators.
    mode: Option<SksMode>,
    proxied_since: Option<i64>,
    verified_at: Option<i64>,
    was_at_zero: bool,
}

/// Input of a reconcile.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaState {
    /// `spec.replicas`.
    pub replicas: u32,
    /// Ready pods.
    pub ready: u32,
    /// Ready activators.
    pub activators: u32,
    /// Result of a probe of the Service: whether an activator answers.
    pub activator_answers: bool,
}

/// Result of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReconcilePlan {
    /// The size to write, if any.
    pub write: Option<(u32, Writer)>,
    /// The mode of the slices.
    pub mode: SksMode,
    /// Delay until the next reconcile without a change.
    pub recheck: Option<Time>,
}

/// Result of one step of the scale-to-zero sequence.
struct ScaleToZeroResult {
    wanted: Option<u32>,
    write: Option<(u32, Writer)>,
    recheck: Option<Time>,
}

// === impl ZeroScaler ===

impl ZeroScaler {
    /// A zero-scaler without data.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            settings: scenario.settings.clone(),
            scaler: scenario.scaler,
            scale_to_zero: scenario.scale_to_zero,
            min: scenario.min_replicas.max(1),
            max: scenario.max_replicas.max(scenario.min_replicas).max(1),
            decision: None,
            limits_pods: false,
            last_request_at: None,
            active: None,
            mode: None,
            proxied_since: None,
            verified_at: None,
            was_at_zero: false,
        }
    }

    /// Stores a decision; `None` during an outage of the adapter.
    pub fn set_decision(&mut self, decision: Option<Decision>, limits_pods: bool) {
        self.decision = decision;
        self.limits_pods = limits_pods;
    }

    /// Handles an activator's report of requests. Returns the size to scale to if the workload
    /// is at zero.
    pub fn record_request(&mut self, replicas: u32, now: Time) -> Option<u32> {
        self.last_request_at = Some(unix_millis(now));
        (replicas == 0 && self.scale_to_zero).then(|| self.first_size())
    }

    /// Records that the size of an earlier reconcile was written.
    pub fn size_written(&mut self, replicas: u32) {
        self.was_at_zero = replicas == 0;
    }

    /// Runs one reconcile.
    pub fn reconcile(&mut self, observed: ReplicaState, now: Time) -> ReconcilePlan {
        let mut sequence_result = self.sequence_result(observed, now);
        if sequence_result.write.is_none() && observed.replicas > 0 && sequence_result.wanted != Some(0) {
            sequence_result.write = self.above_zero(observed.replicas);
        }
        let previous_condition = self.previous_condition(observed);
        let activation =
            compute_active_condition(sequence_result.wanted, observed.ready, self.min, previous_condition);
        if self.active.is_none_or(|(condition, _)| condition.phase != activation.phase)
            || self.was_woken(observed)
        {
            self.active = Some((activation, unix_millis(now)));
        }
        self.was_at_zero = observed.replicas == 0;
        let inactive = activation.phase == ActivePhase::Inactive;
        let mode = self.route(if inactive { Some(0) } else { sequence_result.wanted }, observed, now);
        ReconcilePlan { write: sequence_result.write, mode, recheck: sequence_result.recheck }
    }

    fn sequence_result(&mut self, observed: ReplicaState, now: Time) -> ScaleToZeroResult {
        let wanted = self.decision.as_ref().map(|decision| self.bounded(decision.desired));
        let inactive = self.previous_condition(observed).is_some_and(|b| b.phase == ActivePhase::Inactive);
        let held = |wanted, recheck| ScaleToZeroResult { wanted, write: None, recheck };
        match self.step(observed, now) {
            ScaleToZeroStep::Stay { reason: StayReason::AtZero, .. } => held(Some(0), None),
            ScaleToZeroStep::Stay { reason: StayReason::NoDecision, recheck } => held(None, recheck),
            ScaleToZeroStep::Stay { recheck, .. } if inactive && observed.replicas > 0 => {
                held(Some(0), recheck)
            }
            ScaleToZeroStep::Stay { recheck, .. } => held(wanted, recheck),
            // `step` has run the probe already.
            ScaleToZeroStep::GoInactive | ScaleToZeroStep::ProbeActivator | ScaleToZeroStep::CheckWake => {
                held(Some(0), None)
            }
            ScaleToZeroStep::ScaleToZero => {
                ScaleToZeroResult { write: Some((0, Writer::Idle)), ..held(Some(0), None) }
            }
            ScaleToZeroStep::Reactivate if observed.replicas > 0 => {
                held(Some(wanted.unwrap_or(1).max(self.min)), None)
            }
            ScaleToZeroStep::Reactivate => {
                let to = self.first_size().max(wanted.unwrap_or(0));
                ScaleToZeroResult { write: Some((to, Writer::Wanted)), ..held(Some(to), None) }
            }
        }
    }

    /// The next step of the scale-to-zero sequence, after a probe if the sequence requires one.
    fn step(&mut self, observed: ReplicaState, now: Time) -> ScaleToZeroStep {
        let now = unix_millis(now);
        let machine = self.machine(observed, None, now);
        match zero::next_step(&machine, &self.settings, now) {
            ScaleToZeroStep::ProbeActivator => {
                self.verified_at = observed.activator_answers.then_some(now);
                let machine = self.machine(observed, Some(observed.activator_answers), now);
                zero::next_step(&machine, &self.settings, now)
            }
            step => step,
        }
    }

    fn machine(&self, observed: ReplicaState, probe: Option<bool>, now: i64) -> zero::ObservedWorkload {
        let fresh = |since: i64| if self.was_woken(observed) { now } else { since };
        zero::ObservedWorkload {
            replicas: signed(observed.replicas),
            min_replicas: signed(self.min),
            allowed: zero::is_allowed(self.scale_to_zero, &self.settings),
            scheduled: false,
            demand: self.demand(),
            activators_report: true,
            phase: self.previous_condition(observed).map_or(ActivePhase::Activating, |b| b.phase),
            phase_since: self.active.map_or(now, |(_, since)| fresh(since)),
            proxied_since: self.proxied_since,
            verified_before: self
                .verified_at
                .zip(self.proxied_since)
                .is_some_and(|(verified, since)| verified >= since),
            probe,
            seen: zero::SeenFor::ALWAYS,
            wakeable: Some(true),
        }
    }

    /// Demand from the newest decision and the activators' reports. There is one clock and no skew.
    fn demand(&self) -> Option<RequestDemand> {
        let decision = self.decision.as_ref()?;
        Some(RequestDemand::new(decision, &self.settings, decision.decided_at, self.last_request_at))
    }

    /// Size to write above zero: ahead of the HPA in panic, every size without an HPA.
    fn above_zero(&self, replicas: u32) -> Option<(u32, Writer)> {
        let decided = self.decision.as_ref().map(|d| (self.bounded(d.desired), d.panicking));
        match (self.scaler, decided) {
            (Scaler::Direct, Some((to, _))) => (to != replicas).then_some((to, Writer::Direct)),
            (Scaler::Hpa(_), Some((to, true))) => (to > replicas).then_some((to, Writer::Panic)),
            _ => None,
        }
    }

    /// Selects Proxy or Serve, and records since when Proxy is in force.
    fn route(&mut self, wanted: Option<u32>, observed: ReplicaState, now: Time) -> SksMode {
        let excess = self.decision.as_ref().map(|decision| decision.excess_burst_capacity);
        let mode = if self.limits_pods {
            SksMode::Proxy
        } else {
            sks_mode::wanted(wanted, excess, observed.ready, self.mode)
        };
        self.mode = Some(mode);
        let in_force = sks_mode::in_force(mode, observed.ready, observed.activators);
        self.proxied_since = match in_force {
            SksMode::Proxy => self.proxied_since.or(Some(unix_millis(now))),
            SksMode::Serve => None,
        };
        in_force
    }

    /// The last Active condition, unless the workload was scaled from zero since.
    fn previous_condition(&self, observed: ReplicaState) -> Option<ActiveCondition> {
        let was_woken = self.was_woken(observed);
        self.active
            .map(|(activation, _)| activation)
            .filter(|a| !(was_woken && a.phase == ActivePhase::Inactive))
    }

    fn was_woken(&self, observed: ReplicaState) -> bool {
        self.was_at_zero && observed.replicas > 0
    }

    fn first_size(&self) -> u32 {
        self.bounded(self.settings.scale.activation)
    }

    fn bounded(&self, size: u32) -> u32 {
        size.clamp(self.min, self.max)
    }
}

fn signed(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}
