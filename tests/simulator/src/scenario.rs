//! Scenario: one workload, its clients, and how it is scaled.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::contract::quantity::milli_from_f64;
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::{AutoscalerConfig, LearnTarget, Settings};
use learning::{LearningSpec, MissBudget};

use crate::clock::Time;
use crate::hpa::{Behavior, HpaSpec};
use crate::load::Load;
use crate::load::service_time::ServiceTime;
use crate::workload::app::AppModel;
use crate::workload::pod_speeds::PodSpeeds;

/// All inputs of a run. Two runs of the same scenario have the same result.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of all randomness.
    pub seed: u64,
    /// Traffic of the clients.
    pub load: Load,
    /// Time for which a pod works on a request.
    pub service_time: ServiceTime,
    /// What limits the requests inside a pod.
    pub app: AppModel,
    /// Pods that are slower than the app.
    pub pod_speeds: PodSpeeds,
    /// Changes of the app, in order of time.
    pub app_changes: Vec<AppChange>,
    /// Latency above which a response misses the objective.
    pub objective: Option<Duration>,
    /// Share of requests that may miss the objective.
    pub miss_budget: Option<f64>,
    /// Whether a target is learned.
    pub learn: LearnTarget,
    /// Client timeout: a request that no pod has started by then ends.
    pub client_timeout: Duration,
    /// Time from a pod's creation to its readiness; `None` is for ever.
    pub pod_start: Option<Duration>,
    /// Requests that a pod takes at a time; 0 means no limit.
    pub container_concurrency: u32,
    /// Pods at the start, all of them ready.
    pub initial_replicas: u32,
    /// Number of activators.
    pub activators: usize,
    /// Whether activators lend each other slots that they do not need.
    pub lending: bool,
    /// The metric to scale on.
    pub measure: MetricName,
    /// Target value per pod.
    pub target: f64,
    /// Whether the user named it. Otherwise a learned one is between 1 and the limit of a pod.
    pub target_given: bool,
    /// The writer of sizes above zero.
    pub scaler: Scaler,
    pub hpa_sync_period: Duration,
    /// The HPA's `behavior`; `None` is the one that resembles the KPA.
    pub hpa_behavior: Option<Behavior>,
    /// `minReplicas`.
    pub min_replicas: u32,
    /// `maxReplicas`.
    pub max_replicas: u32,
    /// Whether scale-to-zero is on.
    pub scale_to_zero: bool,
    /// Windows, rates, burst capacity, grace period.
    pub settings: Settings,
    /// Outages of the metrics-adapter. It restarts without state.
    pub adapter_outages: Vec<Range<Time>>,
}

/// A change of the app during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AppChange {
    pub at: Time,
    /// The app from then on.
    pub app: AppModel,
    /// Service time of requests that arrive from then on.
    pub service_time: ServiceTime,
    /// Whether the change is a release: a new pod template.
    pub new_template: bool,
}

/// The writer of sizes above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaler {
    /// The zero-scaler writes every size: the pure KPA.
    Direct,
    /// The HPA on this metric; the zero-scaler writes only at zero and in panic.
    Hpa(HpaMetric),
}

/// A metric that the adapter serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpaMetric {
    /// The stable average, but at least the floor of a decision that is held above the average.
    Average,
    /// The desired size of the decision.
    Desired,
}

// === impl Scenario ===

impl Default for Scenario {
    /// A workload of one pod with Knative's defaults and no traffic.
    fn default() -> Self {
        Self {
            seed: 1,
            load: Load::none(),
            service_time: ServiceTime::Constant(Duration::from_secs(1)),
            app: AppModel::Unlimited,
            pod_speeds: PodSpeeds::default(),
            app_changes: Vec::new(),
            objective: None,
            miss_budget: None,
            learn: LearnTarget::Off,
            client_timeout: Duration::from_secs(60),
            pod_start: Some(Duration::from_secs(5)),
            container_concurrency: 100,
            initial_replicas: 1,
            activators: 1,
            lending: true,
            measure: MetricName::Concurrency,
            target: 70.0,
            target_given: true,
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
    /// The decider's settings.
    pub(crate) fn decider_spec(&self) -> DeciderSpec {
        self.spec_with_target(self.target)
    }

    /// The settings of learning; `None` if it is off.
    pub(crate) fn learning_spec(&self) -> Option<LearningSpec> {
        let target = MetricTarget::of(self.target, self.measure, self.container_concurrency, &self.settings);
        let spec = LearningSpec::new(&self.settings, target, self.container_concurrency, self.target_given);
        let objective = self.miss_budget.map(MissBudget);
        let spec = LearningSpec {
            applied: self.learn == LearnTarget::Apply,
            objective,
            threshold: self.objective,
            ..spec
        };
        (self.learn != LearnTarget::Off).then_some(spec)
    }

    /// The target in force at the start: the user's, unless a learned one begins elsewhere.
    pub(crate) fn start(&self) -> f64 {
        let applied = self.learning_spec().filter(|spec| spec.applied);
        applied.map_or(self.target, |spec| spec.start())
    }

    /// The decider's settings with another target.
    pub(crate) fn spec_with_target(&self, target: f64) -> DeciderSpec {
        let given = MetricTarget::of(self.target, self.measure, self.container_concurrency, &self.settings);
        DeciderSpec::new(&self.settings, given.with_target(target, self.container_concurrency))
    }

    /// The target in thousandths, the HPA's unit.
    pub(crate) fn target_milli(&self) -> i64 {
        milli_from_f64(self.target).unwrap_or(i64::MAX)
    }

    /// The workload's HPA; `None` if the zero-scaler writes all sizes.
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
            // A scale-down delay needs no stabilization window: the metric has its floor already.
            behavior: Some(
                self.hpa_behavior.clone().unwrap_or_else(|| Behavior::like_the_kpa(Duration::ZERO)),
            ),
        };
        Some((spec, metric))
    }
}

/// Knative's defaults, modified by `change`.
pub fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
    change(&mut settings);
    settings
}
