//! Learners: the learner of each workload, on the leader.
//!
//! Input: the seconds that the scraper recorded, the templates and kills of the pods, whether their
//! resources are available, and the averages of each decision. Output: a [`LearningReport`] for the
//! decision. A workload without learning, or that never had a ready pod, has no learner.
//!
//! A follower has none either: its sample of the pods differs. It decides with the target in the
//! PodAutoscaler's status. When it begins to lead, its learners continue from the checkpoints
//! there, so that a change of leader does not change a target. Seconds from before that were the
//! former leader's, and are dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::learning_report::LearningReport;
use autoscaler::settings::LearnTarget;
use autoscaler::stats::collection::WindowAverages;
use learning::{Learner, LearningSpec};

use crate::learning::learning_report::report;
use crate::learning::observations::Observations;
use crate::learning::resources::resource_readings::ResourceReadings;
use crate::metrics::{LearningGauges, LearningMetrics};
use crate::watches::ready_pods::ReadyPods;
use crate::watches::stored_learning::StoredLearning;
use crate::watches::workloads::Workload;

/// The learners of all workloads. At most one a workload of the table.
#[derive(Debug)]
pub struct Learners {
    sources: LearnerSources,
    metrics: LearningMetrics,
    learners: HashMap<Key, WorkloadLearner>,
}

/// What learners read.
#[derive(Debug)]
pub struct LearnerSources {
    /// The seconds of the pods.
    pub observations: Arc<Observations>,
    /// Whether there are CPU and memory of the pods.
    pub resources: Arc<ResourceReadings>,
    /// The learned targets of earlier leaders.
    pub stored: StoredLearning,
    /// Templates and kills of the pods.
    pub pods: ReadyPods,
}

#[derive(Debug)]
struct WorkloadLearner {
    learner: Learner,
    /// The pod template that it learns about.
    epoch: u64,
    /// The newest out-of-memory kill that it includes, in Unix time.
    last_kill: Duration,
    gauges: LearningGauges,
}

// === impl Learners ===

impl Learners {
    /// Learners of no workload.
    pub fn new(sources: LearnerSources, metrics: LearningMetrics) -> Self {
        Self { sources, metrics, learners: HashMap::new() }
    }

    /// Learns from the seconds since the last call, on the leader. `averages` and `ready` are the
    /// inputs of the decision that is about to be made, at `now` in Unix time. `None` without a
    /// learner.
    pub fn learn(
        &mut self,
        workload: &Workload,
        averages: Option<WindowAverages>,
        ready: u32,
        now: Duration,
    ) -> Option<LearningReport> {
        let key = &workload.key;
        let Some(learning) = &workload.learning else {
            self.learners.remove(key);
            return None;
        };
        let template =
            self.sources.pods.youngest_template(&key.namespace, &workload.selector, workload.sidecar);
        if !self.learners.contains_key(key) {
            let learner = self.create(key, learning.spec, template, now)?;
            self.learners.insert(key.clone(), learner);
        }
        let entry = self.learners.get_mut(key)?;
        entry.learner.set_spec(learning.spec);
        entry.begin_epoch(template);
        entry.learner.set_in_force(learning.mode == LearnTarget::Apply);
        for (at, pods) in self.sources.observations.take(key) {
            entry.learner.observe(at, &pods);
        }
        let Workload { selector, sidecar, .. } = workload;
        let kill = self.sources.pods.last_memory_kill(&key.namespace, selector, *sidecar, entry.epoch);
        entry.record_kill(kill, now);
        let learned = entry.learner.decide(&workload.spec, averages, ready, now);
        let resources = self.sources.resources.status(key);
        let report = report(learning, &learned, averages, resources, &entry.learner.state(now));
        entry.gauges.update(&report);
        Some(report)
    }

    /// The learned target of a workload as last stored by the leader, for a follower.
    pub fn stored_target(&self, workload: &Workload) -> Option<f64> {
        let learning = workload.learning.as_ref()?;
        self.sources.stored.target(&workload.key).map(|target| learning.spec.clamp(target))
    }

    /// Drops all learners, when another replica becomes the leader.
    pub fn clear(&mut self) {
        self.learners.clear();
    }

    /// Drops the learners of all workloads for which `keep` is false, and their seconds.
    pub fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        self.learners.retain(|key, _| keep(key));
        self.sources.observations.retain(keep);
    }

    /// A learner with the stored state, if there is one. Without one it needs a template.
    fn create(
        &self,
        key: &Key,
        spec: LearningSpec,
        template: Option<u64>,
        now: Duration,
    ) -> Option<WorkloadLearner> {
        // With the state's own epoch: another template discards the evidence, but not the target.
        let stored = self.sources.stored.checkpoint(key);
        let (learner, epoch, last_kill) = if let Ok(Some(state)) = stored {
            let (epoch, saved_at) = (state.epoch(), state.saved_at());
            (Learner::restore(spec, epoch, state, now), epoch, saved_at.min(now))
        } else {
            let template = template?;
            if let Err(error) = stored {
                tracing::warn!(workload = %key, %error, "invalid checkpoint of the learned target, learning anew");
            }
            (Learner::new(spec, template), template, now)
        };
        let target = learner.learned().target;
        tracing::debug!(workload = %key, target, user_target = spec.user_target, "learner created");
        self.sources.observations.take(key);
        Some(WorkloadLearner { learner, epoch, last_kill, gauges: self.metrics.of(key) })
    }
}

// === impl WorkloadLearner ===

impl WorkloadLearner {
    /// Begins an epoch if the template is another one. Without a ready pod it is the last one.
    fn begin_epoch(&mut self, template: Option<u64>) {
        if let Some(template) = template {
            self.epoch = template;
            self.learner.begin_epoch(template);
        }
    }

    /// Reports a kill once.
    fn record_kill(&mut self, kill: Option<Duration>, now: Duration) {
        if let Some(kill) = kill.filter(|kill| *kill > self.last_kill) {
            self.last_kill = kill;
            self.learner.out_of_memory(now);
        }
    }
}

#[cfg(test)]
mod tests;
