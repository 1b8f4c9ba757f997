//! Learning in the metrics-adapter: the learner with its mode, and what it serves to decider and
//! HPA.

use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::settings::LearnTarget;
use autoscaler::stats::collection::WindowAverages;
use learning::{LearnedTarget, Learner, PodSecond};

use crate::clock::{Time, unix};
use crate::scenario::Scenario;

/// Learning of the workload.
#[derive(Debug)]
pub struct Learning {
    learner: Learner,
    scenario: Scenario,
    user_spec: DeciderSpec,
}

// === impl Learning ===

impl Learning {
    /// Learning without evidence; `None` if it is off.
    pub fn new(scenario: &Scenario) -> Option<Self> {
        let mut learner = Learner::new(scenario.learning_spec()?, 0);
        learner.set_in_force(scenario.learn == LearnTarget::Apply);
        Some(Self { learner, scenario: scenario.clone(), user_spec: scenario.decider_spec() })
    }

    /// Adds a second of all pods.
    pub fn observe(&mut self, pods: &[PodSecond], now: Time) {
        self.learner.observe(unix(now), pods);
    }

    /// Reports that a pod was killed for its memory.
    pub fn out_of_memory(&mut self, now: Time) {
        self.learner.out_of_memory(unix(now));
    }

    /// Begins the epoch of a new pod template.
    pub fn begin_epoch(&mut self, epoch: u64) {
        self.learner.begin_epoch(epoch);
    }

    /// Decides. Returns the decider's settings if the learned target is in force.
    pub fn decide(&mut self, averages: Option<WindowAverages>, ready: u32, now: Time) -> Option<DeciderSpec> {
        let learned = self.learner.decide(&self.user_spec, averages, ready, unix(now));
        self.is_applied().then(|| {
            let spec = self.scenario.spec_with_target(learned.target);
            DeciderSpec { target: spec.target * learned.backlog, ..spec }
        })
    }

    /// The target with its evidence.
    pub fn learned(&self) -> LearnedTarget {
        self.learner.learned()
    }

    /// Requests that a pod may have at a time.
    pub fn temporary_limit(&self) -> Option<u32> {
        self.learner.learned().temporary_limit.filter(|_| self.is_applied())
    }

    /// Factor on the metric with which an HPA with the user's target follows the learned one.
    pub fn metric_scale(&self) -> f64 {
        if self.is_applied() { self.scenario.target / self.learner.learned().target } else { 1.0 }
    }

    fn is_applied(&self) -> bool {
        self.scenario.learn == LearnTarget::Apply
    }
}
