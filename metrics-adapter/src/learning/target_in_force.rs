//! TargetInForce: which target divides the load of a workload, the user's or the learned one.
//!
//! With `learn-target: Apply` it is the learned one: for the decider, for its panic and burst
//! capacity, for pokes, and for the value that the HPA reads. Where it equals the user's target, or
//! is not a usable divisor, nothing differs from a workload that does not learn, to the last bit.

use std::borrow::Cow;

use autoscaler::Decision;
use autoscaler::learning_report::LearningReport;
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::LearnTarget;

use crate::watches::workloads::Workload;

/// A learned target in force. Finite, above 0, and not the user's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetInForce {
    target: f64,
    /// Factor on it for the decider, at least 1.
    backlog: f64,
}

// === impl TargetInForce ===

impl TargetInForce {
    /// `learned` if it is in force; `None` where the user's target is.
    pub fn new(workload: &Workload, learned: f64) -> Option<Self> {
        let usable = learned.is_finite() && learned > 0.0 && learned != workload.spec.target;
        (is_applied(workload) && usable).then_some(Self { target: learned, backlog: 1.0 })
    }

    /// The target of a report.
    pub fn of_report(workload: &Workload, report: &LearningReport) -> Option<Self> {
        let backlog = if report.backlog.is_finite() { report.backlog.max(1.0) } else { 1.0 };
        Self::new(workload, report.target).map(|target| Self { backlog, ..target })
    }

    /// The target with which a decision was made.
    pub fn of_decision(workload: &Workload, decision: &Decision) -> Option<Self> {
        Self::of_report(workload, decision.learning.as_ref()?)
    }

    /// Concurrent requests that one pod should carry.
    pub fn get(self) -> f64 {
        self.target
    }

    /// The value, in thousandths, from which an HPA with the user's target computes the pods that
    /// the load needs with this one. The HPA rounds its quotient up, so an exact number of pods has
    /// to become an exact multiple of its target.
    pub fn metric_milli(self, load: f64, user_target_milli: i64) -> i64 {
        let pods = load / self.target;
        // `as` saturates.
        (pods * user_target_milli as f64).ceil() as i64
    }
}

/// Whether the learned target of a workload is in force once there is one.
pub fn is_applied(workload: &Workload) -> bool {
    workload.learning.as_ref().is_some_and(|learning| learning.mode == LearnTarget::Apply)
}

/// The settings of a workload's decider with the target in force.
pub fn spec_in_force(workload: &Workload, target: Option<TargetInForce>) -> Cow<'_, DeciderSpec> {
    let spec = &workload.spec;
    match target {
        None => Cow::Borrowed(spec),
        Some(TargetInForce { target, backlog }) => {
            let user = MetricTarget { target: spec.target, total: spec.total };
            let limit = workload.container_concurrency.unwrap_or(0);
            let MetricTarget { target, total } = user.with_target(target, limit);
            Cow::Owned(DeciderSpec { target: target * backlog, total, ..spec.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::settings::LearnTarget::{Apply, Off, Recommend};
    use proptest::prelude::*;

    use super::*;

    /// The pods that a stock HPA computes: it divides thousandths and rounds up.
    fn hpa(value_milli: i64, target_milli: i64) -> f64 {
        (value_milli as f64 / target_milli as f64).ceil()
    }

    fn of(target: f64) -> TargetInForce {
        TargetInForce { target, backlog: 1.0 }
    }

    #[test]
    fn backlog_counts_for_the_decider_alone() {
        let workload = Workload::learning("web", Apply, 20.0);
        let report: LearningReport = serde_json::from_value(serde_json::json!({
            "mode": "Apply", "userTarget": 20.0, "target": 8.0, "phase": "Settled", "confidence": 1.0, "evidence": "",
            "podsWithUserTarget": 8, "podsWithTarget": 20, "changes": 1, "reverts": 0,
        }))
        .unwrap();
        for (backlog, expected) in [(report.backlog, 8.0), (5.0, 40.0), (0.5, 8.0), (f64::NAN, 8.0)] {
            let target = TargetInForce::of_report(&workload, &LearningReport { backlog, ..report.clone() });
            assert_eq!(spec_in_force(&workload, target).target, expected, "{backlog}");
            let target = target.unwrap();
            assert_eq!((target.get(), target.metric_milli(160.0, 20_000)), (8.0, 400_000));
        }
    }

    #[test]
    fn only_another_usable_target_is_in_force() {
        let in_force = |mode, learned| {
            TargetInForce::new(&Workload::learning("web", mode, 20.0), learned).map(TargetInForce::get)
        };
        assert_eq!(in_force(Apply, 8.0), Some(8.0));
        assert_eq!(in_force(Apply, 20.0), None, "the user's");
        for unusable in [0.0, -0.0, -8.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(in_force(Apply, unusable), None, "{unusable}");
        }
        assert_eq!((in_force(Recommend, 8.0), in_force(Off, 8.0)), (None, None));
        let without = Workload { learning: None, ..Workload::learning("web", Apply, 20.0) };
        assert_eq!(TargetInForce::new(&without, 8.0), None);
    }

    #[test]
    fn spec_in_force_scales_target_and_total_within_the_container_concurrency() {
        let workload = Workload::learning("web", Apply, 20.0);
        let in_force = |workload: &Workload, learned| {
            let spec = spec_in_force(workload, TargetInForce::new(workload, learned)).into_owned();
            (spec.target, (spec.total * workload.spec.target / spec.target / workload.spec.total - 1.0).abs())
        };
        for learned in [5.0, 8.4, 80.0] {
            let (target, deviation) = in_force(&workload, learned);
            assert!(target == learned && deviation < 1e-12, "{target}: {deviation}");
        }
        assert_eq!(spec_in_force(&workload, TargetInForce::new(&workload, 20.0)).as_ref(), &workload.spec);
        let limited = Workload { container_concurrency: Some(30), ..workload };
        let spec = spec_in_force(&limited, TargetInForce::new(&limited, 40.0));
        assert_eq!((spec.target, spec.total), (40.0, 30.0));
    }

    #[test]
    fn hpa_computes_the_pods_of_the_learned_target_at_exact_multiples() {
        for learned in [0.1, 0.7, 2.8, 8.4, 12.0, 33.3] {
            for pods in 0..200 {
                let load = f64::from(pods) * learned;
                for target_milli in [1, 700, 20_000, 70_000, 1_000_000] {
                    let value = of(learned).metric_milli(load, target_milli);
                    assert_eq!(hpa(value, target_milli), (load / learned).ceil(), "{load} of {learned}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn hpa_computes_the_pods_of_the_learned_target(
            load in 0.0..1e5f64,
            learned in 0.01..1e4f64,
            target_milli in 1..10_000_000i64,
        ) {
            let value = of(learned).metric_milli(load, target_milli);
            prop_assert_eq!(hpa(value, target_milli), (load / learned).ceil());
        }

        #[test]
        fn metric_is_never_negative_for_any_load(load in 0.0..f64::MAX, learned in 1e-300..1e300f64) {
            prop_assert!(of(learned).metric_milli(load, 20_000) >= 0);
        }
    }
}
