//! Settings of learning, and the bounds of every target.

use std::ops::RangeInclusive;
use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::{
    LEARNING_FACTOR_DEFAULT, LatencyObjective, LearnTarget, MOST_LEARNING_FACTOR, Settings,
};

use crate::tuning;

/// Smallest target where the user gave none: a request needs a pod.
const LEAST_FREE: f64 = 1.0;
/// Smallest target.
const LEAST: f64 = 0.01;
/// Largest target.
const MOST: f64 = 1e6;

/// Settings of one workload's learning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningSpec {
    /// The user's target; the cluster's default where the user gave none.
    pub user_target: f64,
    /// The load that the container concurrency allows at its utilization; `None` without a limit.
    pub limit: Option<f64>,
    /// A learned target is at least the user's divided by this, and at most the user's times this.
    /// `None` where the user gave no target: it is then between 1 and the limit.
    pub factor: Option<f64>,
    /// Whether the learned target is in force. Where the user gave none, it then starts low.
    pub applied: bool,
    /// The objective; without one the target is at the knee of the load curve.
    pub objective: Option<MissBudget>,
    /// The time after which a response misses the objective. Misses of another threshold do not
    /// count.
    pub threshold: Option<Duration>,
}

/// Share of requests that may miss the latency objective, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissBudget(pub f64);

// === impl MissBudget ===

impl From<LatencyObjective> for MissBudget {
    fn from(objective: LatencyObjective) -> Self {
        Self(objective.miss_budget())
    }
}

// === impl LearningSpec ===

impl Default for LearningSpec {
    /// A user's target of 1, with the default factor around it.
    fn default() -> Self {
        let factor = Some(LEARNING_FACTOR_DEFAULT);
        Self { user_target: 1.0, limit: None, factor, applied: true, objective: None, threshold: None }
    }
}

impl LearningSpec {
    /// The settings of a workload that scales on concurrency with this target. `given` is whether
    /// the user named one; otherwise it is the cluster's default, or the share of the limit.
    pub fn new(settings: &Settings, target: MetricTarget, container_concurrency: u32, given: bool) -> Self {
        let objective = settings.learning.objective;
        Self {
            user_target: target.target,
            limit: limit(settings, target, container_concurrency),
            factor: given.then_some(settings.learning.factor),
            applied: settings.learning.mode == LearnTarget::Apply,
            objective: objective.map(MissBudget::from),
            threshold: objective.map(|objective| objective.threshold),
        }
    }

    /// The bounds of the target. Both are finite and above 0, whatever the settings are.
    pub fn bounds(&self) -> RangeInclusive<f64> {
        let user = self.user();
        let limit = self.limit.filter(|limit| *limit > 0.0).unwrap_or(MOST).clamp(LEAST, MOST);
        let (least, most) = self.factor().map_or((LEAST_FREE, MOST), |factor| (user / factor, user * factor));
        let most = most.min(limit);
        least.max(LEAST).min(most)..=most
    }

    /// `target` within the bounds.
    pub fn clamp(&self, target: f64) -> f64 {
        let bounds = self.bounds();
        if target.is_nan() { self.start() } else { target.clamp(*bounds.start(), *bounds.end()) }
    }

    /// The target before any evidence, within the bounds: the user's, or without one a low one.
    pub fn start(&self) -> f64 {
        let bounds = self.bounds();
        let start = if self.is_free() { self.user().min(tuning::steps::FIRST_TARGET) } else { self.user() };
        start.clamp(*bounds.start(), *bounds.end())
    }

    /// Whether the target is found without any number of the user.
    pub(crate) fn is_free(&self) -> bool {
        self.applied && self.factor.is_none()
    }

    /// Whether evidence for these settings is evidence for the others.
    pub(crate) fn has_evidence_of(&self, other: &Self) -> bool {
        let measured = |spec: &Self| (spec.user_target, spec.objective, spec.threshold);
        measured(self) == measured(other)
    }

    fn user(&self) -> f64 {
        let user = if self.user_target.is_nan() { 1.0 } else { self.user_target };
        user.clamp(LEAST, MOST)
    }

    fn factor(&self) -> Option<f64> {
        let factor = self.factor?;
        Some(if factor.is_nan() { LEARNING_FACTOR_DEFAULT } else { factor.clamp(1.0, MOST_LEARNING_FACTOR) })
    }
}

/// The share of the container concurrency that a pod should carry. A user's target above that share
/// states another utilization, so it is the limit itself, up to the container concurrency.
fn limit(settings: &Settings, target: MetricTarget, container_concurrency: u32) -> Option<f64> {
    let most = f64::from(container_concurrency);
    let share = most * settings.utilization(MetricName::Concurrency);
    (container_concurrency > 0).then(|| share.max(target.target.min(most)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use autoscaler::settings::AutoscalerConfig;

    use super::*;

    fn settings(annotations: &[(&str, &str)]) -> Settings {
        let annotations: BTreeMap<_, _> = annotations
            .iter()
            .map(|(key, value)| (format!("{}/{key}", autoscaler::contract::GROUP), (*value).to_owned()))
            .collect();
        let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &annotations);
        assert_eq!(errors, []);
        settings
    }

    /// The spec of a workload with this target of the user.
    fn given(target: f64, container_concurrency: u32, settings: &Settings) -> LearningSpec {
        let target = MetricTarget::of(target, MetricName::Concurrency, container_concurrency, settings);
        LearningSpec::new(settings, target, container_concurrency, true)
    }

    /// The spec of a workload without a target of the user.
    fn free(container_concurrency: u32, settings: &Settings) -> LearningSpec {
        let target = MetricTarget::resolve(MetricName::Concurrency, container_concurrency, settings);
        LearningSpec::new(settings, target, container_concurrency, false)
    }

    #[test]
    fn bounds_are_a_quarter_to_four_times_within_the_limit() {
        let bounds = |limit| LearningSpec { user_target: 20.0, limit, ..LearningSpec::default() }.bounds();
        assert_eq!(bounds(None), 5.0..=80.0);
        assert_eq!(bounds(Some(7.0)), 5.0..=7.0);
        assert_eq!(bounds(Some(3.0)), 3.0..=3.0);
    }

    #[test]
    fn factor_of_the_annotation_widens_or_narrows_the_bounds() {
        let bounds = |factor| given(20.0, 0, &settings(&[("learn-target-factor", factor)])).bounds();
        assert_eq!(bounds("2"), 10.0..=40.0);
        assert_eq!(bounds("1"), 20.0..=20.0);
        assert_eq!(bounds("16"), 1.25..=320.0);
    }

    #[test]
    fn bounds_are_one_and_the_limit_without_a_target_of_the_user() {
        let settings = settings(&[("learn-target-factor", "2")]);
        assert_eq!(free(10, &settings).bounds(), 1.0..=7.0);
        assert_eq!(free(10, &settings).start(), 7.0);
        assert_eq!(free(0, &settings).bounds(), 1.0..=MOST);
        assert_eq!(free(0, &settings).start(), 70.0);
        assert_eq!(free(1, &settings).bounds(), 0.7..=0.7, "the limit is below 1");
    }

    #[test]
    fn applied_target_without_a_target_of_the_user_starts_low() {
        let settings = settings(&[("learn-target", "Apply")]);
        assert_eq!(free(0, &settings).start(), 2.0);
        assert_eq!(free(1, &settings).start(), 0.7, "the limit is lower");
        assert_eq!(given(20.0, 0, &settings).start(), 20.0);
    }

    #[test]
    fn target_of_the_user_up_to_the_container_concurrency_is_within_the_limit() {
        let settings = settings(&[]);
        assert_eq!(given(5.0, 10, &settings).bounds(), 1.25..=7.0);
        assert_eq!(given(9.0, 10, &settings).start(), 9.0);
        assert_eq!(given(70.0, 10, &settings).start(), 10.0);
    }

    #[test]
    fn objective_of_the_annotation_has_budget_and_threshold() {
        let spec = given(20.0, 0, &settings(&[("latency-objective", "200ms@p90")]));
        assert!((spec.objective.unwrap().0 - 0.1).abs() < 1e-12);
        assert_eq!(spec.threshold, Some(Duration::from_millis(200)));
        let other = given(20.0, 0, &settings(&[("latency-objective", "300ms@p90")]));
        assert!(!spec.has_evidence_of(&other), "misses of another threshold");
        assert!(spec.has_evidence_of(&LearningSpec { limit: Some(7.0), ..spec }));
    }

    #[test]
    fn bounds_are_usable_for_any_factor() {
        for factor in [0.0, -1.0, 0.5, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            for user_target in [0.0, -1.0, 1e-300, 20.0, 1e300, f64::NAN, f64::INFINITY] {
                let spec = LearningSpec { user_target, factor: Some(factor), ..LearningSpec::default() };
                let (least, most) = (*spec.bounds().start(), *spec.bounds().end());
                assert!(least > 0.0 && least <= most && most.is_finite(), "{spec:?}: {least}..={most}");
                assert!(spec.bounds().contains(&spec.start()), "{spec:?}");
            }
        }
    }
}
