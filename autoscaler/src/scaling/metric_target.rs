//! The load that one pod should carry, and the load that it can carry at most.
//!
//! Input: the metric, the pods' concurrency limit and the settings; or the target of an HPA or a
//! PodAutoscaler. Output: a [`MetricTarget`] for the decider and for the number of activators.
//! Rules and defaults are Knative's (`ResolveMetricTarget` in
//! `pkg/reconciler/autoscaling/resources/target.go`).
//!
//! What surprises: the annotation `target` is what a pod can carry, and its utilization percentage
//! is what the pod should carry. The target of an HPA is what a pod should carry, because the HPA
//! divides by it.

use crate::contract::metric_name::MetricName;
use crate::contract::quantity::{ParseQuantityError, parse_milli};
use crate::settings::{LEAST_TARGET, Settings};

/// Load of one pod, in the unit of the metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricTarget {
    /// Load that a pod should carry. Above 0.
    pub target: f64,
    /// Load that a pod can carry at most. Above 0.
    pub total: f64,
}

/// Why a given target is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MetricTargetError {
    /// Not a quantity.
    #[error("the target: {0}")]
    Quantity(#[from] ParseQuantityError),
    /// 0 or less.
    #[error("the target is {0:?}, but must be above 0")]
    NotAboveZero(String),
}

// === impl MetricTarget ===

impl MetricTarget {
    /// The target of a workload without a given one.
    ///
    /// `container_concurrency` is the number of requests that one pod serves at a time; 0 means no
    /// limit. It does not limit requests per second.
    pub fn resolve(metric: MetricName, container_concurrency: u32, settings: &Settings) -> Self {
        let limit = limit(metric, container_concurrency);
        let total = match (settings.target.capacity, limit) {
            (Some(target), Some(limit)) => target.min(limit),
            (Some(target), None) => target,
            (None, Some(limit)) => limit,
            (None, None) => default_total(metric, settings),
        };
        Self { target: (total * settings.utilization(metric)).max(LEAST_TARGET), total }
    }

    /// The target that an HPA or a PodAutoscaler gives as a quantity.
    ///
    /// # Errors
    /// When `target` is not a quantity, or not above 0.
    pub fn given(
        target: &str,
        metric: MetricName,
        container_concurrency: u32,
        settings: &Settings,
    ) -> Result<Self, MetricTargetError> {
        let milli = parse_milli(target)?;
        if milli <= 0 {
            return Err(MetricTargetError::NotAboveZero(target.to_owned()));
        }
        Ok(Self::of(milli as f64 / 1000.0, metric, container_concurrency, settings))
    }

    /// The target of a workload whose pods should carry `target` each, which is above 0. The total
    /// is the pods' limit if they have one. Otherwise `target` counts as the utilization percentage
    /// of the total.
    pub fn of(target: f64, metric: MetricName, container_concurrency: u32, settings: &Settings) -> Self {
        let whole = || (target / settings.utilization(metric)).min(f64::MAX);
        Self { target, total: limit(metric, container_concurrency).unwrap_or_else(whole) }
    }

    /// Another target of the same pods, such as a learned target. The total changes in proportion,
    /// up to `container_concurrency`, above which no pod serves requests; 0 means no limit.
    #[must_use]
    pub fn with_target(self, target: f64, container_concurrency: u32) -> Self {
        let most = limit(MetricName::Concurrency, container_concurrency).unwrap_or(f64::MAX);
        Self { target, total: (self.total * (target / self.target)).min(most) }
    }

    /// The target in thousandths, the unit in which the HPA divides. At least 1.
    pub fn milli(&self) -> i64 {
        // Rounded to the nearest, so that a target given in thousandths comes back unchanged. `as`
        // saturates.
        ((self.target * 1000.0).round() as i64).max(1)
    }
}

/// The total that the pods themselves allow.
fn limit(metric: MetricName, container_concurrency: u32) -> Option<f64> {
    match (metric, container_concurrency) {
        (MetricName::Concurrency, 1..) => Some(f64::from(container_concurrency)),
        _ => None,
    }
}

fn default_total(metric: MetricName, settings: &Settings) -> f64 {
    match metric {
        MetricName::Concurrency => settings.target.default_concurrency,
        MetricName::RequestsPerSecond => settings.target.default_requests_per_second,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::MetricName::{Concurrency, RequestsPerSecond};
    use super::*;
    use crate::settings::AutoscalerConfig;

    /// Settings with this utilization percentage, default concurrency, and these two annotations.
    fn settings(percentage: f64, default: f64, target: Option<&str>, utilization: Option<&str>) -> Settings {
        let mut config = AutoscalerConfig::default();
        config.defaults.target.default_concurrency_utilization = percentage / 100.0;
        config.defaults.target.default_concurrency = default;
        let annotation = |key: &str, value: Option<&str>| {
            value.map(|value| (format!("autoscaling.rouse.dev/{key}"), value.to_owned()))
        };
        let annotations =
            [annotation("target", target), annotation("target-utilization-percentage", utilization)];
        let (settings, errors) = Settings::resolve(&config, &annotations.into_iter().flatten().collect());
        assert_eq!(errors, []);
        settings
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn resolves_targets_like_knative() {
        // target_test.go; G3, G7 and G8 have the total in the configuration.
        for (row, metric, limit, settings, target, total) in [
            ("G1", Concurrency, 0, settings(100.0, 100.0, None, None), 100.0, 100.0),
            ("G2", Concurrency, 0, settings(80.0, 100.0, None, None), 80.0, 100.0),
            ("G3", Concurrency, 0, settings(30.0, 2.0, None, None), 0.6, 2.0),
            ("G4", Concurrency, 12, settings(80.0, 100.0, None, Some("75")), 9.0, 12.0),
            ("G5", Concurrency, 10, settings(80.0, 100.0, None, None), 8.0, 10.0),
            ("G6", Concurrency, 1, settings(80.0, 100.0, None, None), 0.8, 1.0),
            ("G7", Concurrency, 0, settings(0.1, 100.0, Some("1"), None), 0.01, 1.0),
            ("G8", Concurrency, 0, settings(75.0, 100.0, Some("10"), None), 7.5, 10.0),
            ("G9", Concurrency, 10, settings(100.0, 100.0, Some("1"), None), 1.0, 1.0),
            ("G10", Concurrency, 0, settings(100.0, 100.0, Some("500"), None), 500.0, 500.0),
            ("G11", Concurrency, 1, settings(100.0, 100.0, Some("10"), None), 1.0, 1.0),
            ("G12", RequestsPerSecond, 1, settings(100.0, 100.0, None, None), 140.0, 200.0),
            ("G13", RequestsPerSecond, 0, settings(100.0, 100.0, Some("1"), None), 0.7, 1.0),
            ("G14", RequestsPerSecond, 0, settings(100.0, 100.0, None, Some("75")), 150.0, 200.0),
            ("G15", RequestsPerSecond, 0, settings(100.0, 100.0, Some("300"), None), 210.0, 300.0),
            (
                "G12 with a target",
                RequestsPerSecond,
                1,
                settings(100.0, 100.0, Some("300"), None),
                210.0,
                300.0,
            ),
        ] {
            let got = MetricTarget::resolve(metric, limit, &settings);
            assert!(near(got.target, target) && near(got.total, total), "{row}: {got:?}");
        }
    }

    #[test]
    fn keeps_given_target_and_derives_total() {
        let of = |target, metric, limit| {
            MetricTarget::given(target, metric, limit, &settings(70.0, 100.0, Some("5"), None)).unwrap()
        };
        assert_eq!(of("70", Concurrency, 0), MetricTarget { target: 70.0, total: 100.0 });
        assert_eq!(of("700m", Concurrency, 1), MetricTarget { target: 0.7, total: 1.0 });
        assert_eq!(of("70", Concurrency, 10), MetricTarget { target: 70.0, total: 10.0 });
        // A limit of concurrent requests does not limit requests per second.
        assert_eq!(of("140", RequestsPerSecond, 10), MetricTarget { target: 140.0, total: 200.0 });
        let half = MetricTarget::given("70", Concurrency, 0, &settings(70.0, 100.0, None, Some("50")));
        assert_eq!(half, Ok(MetricTarget { target: 70.0, total: 140.0 }));
    }

    #[test]
    fn other_target_changes_total_in_proportion_up_to_the_limit() {
        let given = MetricTarget { target: 20.0, total: 40.0 };
        assert_eq!(given.with_target(5.0, 0), MetricTarget { target: 5.0, total: 10.0 });
        assert_eq!(given.with_target(30.0, 50), MetricTarget { target: 30.0, total: 50.0 });
        assert_eq!(given.with_target(20.0, 0), given);
        let large = MetricTarget { target: 1e-3, total: f64::MAX }.with_target(1e6, 0);
        assert_eq!(large.total, f64::MAX, "finite");
    }

    #[test]
    fn returns_given_target_in_thousandths_unchanged() {
        let settings = settings(70.0, 100.0, None, None);
        for milli in (1..20_000).chain([999_999_999_999_999]) {
            let target = MetricTarget::given(&format!("{milli}m"), Concurrency, 0, &settings).unwrap();
            assert_eq!(target.milli(), milli);
        }
        assert_eq!(MetricTarget { target: 1e-9, total: 1.0 }.milli(), 1);
        assert_eq!(MetricTarget { target: 1e300, total: 1e300 }.milli(), i64::MAX);
    }

    #[test]
    fn rejects_invalid_target_with_reason() {
        let error = |target| {
            MetricTarget::given(target, Concurrency, 0, &settings(70.0, 100.0, None, None))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(error("0"), "the target is \"0\", but must be above 0");
        assert_eq!(error("-1"), "the target is \"-1\", but must be above 0");
        assert!(error("x").starts_with("the target: \"x\" is not a Kubernetes quantity"), "{}", error("x"));
    }

    proptest! {
        #[test]
        fn target_is_always_a_positive_divisor(
            target in prop::option::of(0.01..1e300f64),
            fraction in 1e-300..=1.0f64,
            limit in 0u32..2000,
            milli in 1i64..,
        ) {
            let mut settings = settings(70.0, 100.0, None, None);
            settings.target.capacity = target;
            settings.target.default_concurrency_utilization = fraction;
            for metric in [Concurrency, RequestsPerSecond] {
                let given = MetricTarget::given(&format!("{milli}m"), metric, limit, &settings);
                for MetricTarget { target, total } in [MetricTarget::resolve(metric, limit, &settings), given.unwrap()] {
                    prop_assert!(target > 0.0 && target.is_finite(), "{}", target);
                    prop_assert!(total > 0.0 && total.is_finite(), "{}", total);
                }
            }
        }
    }
}
