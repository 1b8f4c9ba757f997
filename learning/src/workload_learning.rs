//! WorkloadLearning: whether and how the target of one workload is learned.
//!
//! Input: the settings of a workload and its target. Used by the metrics-adapter, which builds the
//! learner from it and sends the objective to the sidecars.

use autoscaler::contract::metric_name::MetricName;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::{LatencyObjective, LearnTarget, Settings};

use crate::bounds::LearningSpec;

/// Learning of one workload. There is none if it is off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadLearning {
    /// What happens with the learned target. Never [`LearnTarget::Off`] or
    /// [`LearnTarget::Auto`].
    pub mode: LearnTarget,
    /// Settings of the learner.
    pub spec: LearningSpec,
    /// The latency objective, against which the sidecars count misses.
    pub objective: Option<LatencyObjective>,
}

// === impl WorkloadLearning ===

impl WorkloadLearning {
    /// Learning of a workload that scales on `metric` with `target`; `None` if it is off, or the
    /// metric is not concurrency. `given` is whether the user named a target.
    pub fn new(
        settings: &Settings,
        metric: MetricName,
        target: MetricTarget,
        container_concurrency: u32,
        given: bool,
    ) -> Option<Self> {
        settings.learns(metric).then(|| Self {
            mode: settings.learning.mode,
            spec: LearningSpec::new(settings, target, container_concurrency, given),
            objective: settings.learning.objective,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use autoscaler::settings::AutoscalerConfig;

    use super::*;

    fn learning(mode: LearnTarget, metric: MetricName) -> Option<WorkloadLearning> {
        let mut config = AutoscalerConfig::default();
        config.defaults.learning.mode = mode;
        let (settings, _) = Settings::resolve(&config, &BTreeMap::new());
        WorkloadLearning::new(&settings, metric, MetricTarget::of(20.0, metric, 0, &settings), 0, true)
    }

    #[test]
    fn only_concurrency_is_learned_and_not_if_learning_is_off() {
        for mode in [LearnTarget::Recommend, LearnTarget::Apply] {
            let learning = learning(mode, MetricName::Concurrency).unwrap();
            assert_eq!((learning.mode, learning.spec.user_target), (mode, 20.0));
        }
        assert_eq!(learning(LearnTarget::Off, MetricName::Concurrency), None);
        assert_eq!(learning(LearnTarget::Apply, MetricName::RequestsPerSecond), None);
    }
}
