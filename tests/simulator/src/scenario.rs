//! Scenario: one workload, its users, and how it is scaled.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::contract::quantity::milli_from_f64;
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::AutoscalerConfig;
use autoscaler::settings::Settings;

use crate::clock::Time;
use crate::hpa::{Behavior, HpaSpec};
use crate::load::Load;
use crate::load::service_time::ServiceTime;

/// Everything that a run depends on. Two runs of the same scenario are the same.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Decides everything random.
    pub seed: u64,
    /// Who calls.
    pub load: Load,
    /// How long a pod works on a request.
    pub service_time: ServiceTime,
    /// How long a client waits for a pod to begin.
    pub client_timeout: Duration,
    /// How long a pod takes from its creation to its first answer; `None` is for ever.
    pub pod_start: Option<Duration>,
    /// Requests that a pod takes at a time; 0 is no limit.
    pub container_concurrency: u32,
    /// Pods at the start, all of them ready.
    pub initial_replicas: u32,
    /// Activators.
    pub activators: usize,
    /// Whether activators lend each other places on pods that they do not need.
    pub lending: bool,
    /// What is averaged.
    pub measure: MetricName,
    /// How much of it a pod should carry.
    pub target: f64,
    /// Who writes sizes above zero.
    pub scaler: Scaler,
    /// Time between two looks of the HPA.
    pub hpa_sync_period: Duration,
    /// The HPA's `behavior`; if there is none here, the one that resembles the KPA.
    pub hpa_behavior: Option<Behavior>,
    /// `minReplicas`.
    pub min_replicas: u32,
    /// `maxReplicas`.
    pub max_replicas: u32,
    /// Whether the workload may go to zero.
    pub scale_to_zero: bool,
    /// Windows, rates, burst capacity, grace.
    pub settings: Settings,
    /// When the metrics-adapter is not there. It comes back without any memory.
    pub adapter_outages: Vec<Range<Time>>,
}

/// Who writes sizes above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaler {
    /// The zero-scaler, each of them: the pure KPA.
    Direct,
    /// The HPA, on this metric; the zero-scaler only at zero and in panic.
    Hpa(HpaMetric),
}

/// A metric that the adapter serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpaMetric {
    /// The stable average of what is measured; at least what the decision stands for, where that is held above the average.
    Average,
    /// The decision itself.
    Desired,
}

// === impl Scenario ===

impl Default for Scenario {
    /// Nobody calls a workload of one pod with Knative's defaults.
    fn default() -> Self {
        Self {
            seed: 1,
            load: Load::none(),
            service_time: ServiceTime::Constant(Duration::from_secs(1)),
            client_timeout: Duration::from_secs(60),
            pod_start: Some(Duration::from_secs(5)),
            container_concurrency: 100,
            initial_replicas: 1,
            activators: 1,
            lending: true,
            measure: MetricName::Concurrency,
            target: 70.0,
            scaler: Scaler::Hpa(HpaMetric::Average),
            hpa_sync_period: Duration::from_secs(15),
            hpa_behavior: None,
            min_replicas: 1,
            max_replicas: 1000,
            scale_to_zero: true,
            settings: settings(|_| ()),
            adapter_outages: Vec::new(),
        }
    }
}

impl Scenario {
    /// What decisions go by.
    pub(crate) fn decider_spec(&self) -> DeciderSpec {
        let target = MetricTarget::of(self.target, self.measure, self.container_concurrency, &self.settings);
        DeciderSpec::new(&self.settings, target)
    }

    /// The target in the HPA's unit.
    pub(crate) fn target_milli(&self) -> i64 {
        milli_from_f64(self.target).unwrap_or(i64::MAX)
    }

    /// The HPA of the workload; `None` if there is none.
    pub(crate) fn hpa_spec(&self) -> Option<(HpaSpec, HpaMetric)> {
        let Scaler::Hpa(metric) = self.scaler else { return None };
        let target = match metric {
            HpaMetric::Average => self.target_milli(),
            HpaMetric::Desired => 1000,
        };
        let signed = |size: u32| i32::try_from(size).unwrap_or(i32::MAX);
        let spec = HpaSpec {
            min: signed(self.min_replicas.max(1)),
            max: signed(self.max_replicas.max(self.min_replicas)),
            targets: vec![target],
            // A scale-down delay needs no stabilization window: the metric carries what is held.
            behavior: Some(
                self.hpa_behavior.clone().unwrap_or_else(|| Behavior::like_the_kpa(Duration::ZERO)),
            ),
        };
        Some((spec, metric))
    }
}

/// Knative's defaults, and what `change` makes of them.
pub fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
    change(&mut settings);
    settings
}
