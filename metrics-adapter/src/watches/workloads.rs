//! Workloads: the table of what is collected and decided on, replaced as a whole on each change.
//!
//! The metric watch builds it from Metrics, PodAutoscalers and the settings. The scrape loop, the
//! multi-scaler and the metrics API read the newest one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::OwnershipRank;
use autoscaler::contract::metric_name::MetricName;
use autoscaler::contract::selector::Selector;
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::settings::{Pause, Schedule, SidecarMode};
use autoscaler::stats::collection::WindowSpec;
use learning::WorkloadLearning;
use tokio::sync::watch;

/// Receives the newest table.
pub type WorkloadsReceiver = watch::Receiver<Arc<WorkloadTable>>;

/// One workload and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Namespace and name.
    pub key: Key,
    /// The Service that selects its metrics.
    pub service: String,
    /// Its place among workloads that name the same Service.
    pub rank: OwnershipRank,
    /// Selects the pods that get the requests of its Service.
    pub selector: Selector,
    /// Selects the pods of its scale target, if others than those.
    pub target_selector: Option<Selector>,
    /// Whether its pods have a sidecar, which is scraped.
    pub sidecar: SidecarMode,
    /// Whether requests reach pods without sidecar past the activators, so that nothing counts
    /// them.
    pub bypassed: bool,
    /// The averaging windows.
    pub windows: WindowSpec,
    /// The measure that decisions use.
    pub measure: MetricName,
    /// Target value per pod, in thousandths.
    pub target_milli: i64,
    /// Settings of the decider, with the user's target.
    pub spec: DeciderSpec,
    /// Concurrent requests that one pod accepts at most; `None` without a limit.
    pub container_concurrency: Option<u32>,
    /// Smallest size above zero, without the schedule.
    pub smallest_size: u32,
    /// Smallest size by time.
    pub schedule: Option<Schedule>,
    /// The size that it keeps while a pause is in force; `None` without a pause.
    pub kept: Option<KeptSize>,
    /// Settings of learning; `None` if it is off.
    pub learning: Option<WorkloadLearning>,
}

/// The size of a workload with a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSize {
    pub pause: Pause,
    /// `spec.replicas` of its target; `None` before the zero-scaler has reported it.
    pub size: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadTable {
    by_key: BTreeMap<Key, Arc<Workload>>,
    /// (namespace, Service) to the workloads that name it.
    by_service: HashMap<(String, String), Vec<Key>>,
}

// === impl Workload ===

#[cfg(test)]
impl Workload {
    /// A workload of this name in the namespace `shop`, with windows of 60 s and 6 s.
    pub(crate) fn sample(name: &str) -> Self {
        let (stable, panic) = (std::time::Duration::from_secs(60), std::time::Duration::from_secs(6));
        let aggregation = autoscaler::settings::Aggregation::Linear;
        Self {
            key: Key::new("shop", name),
            service: name.to_owned(),
            rank: OwnershipRank::LAST,
            selector: Selector::parse("app=web").unwrap(),
            target_selector: None,
            sidecar: SidecarMode::Required,
            bypassed: false,
            windows: WindowSpec { stable, panic, aggregation },
            measure: MetricName::Concurrency,
            target_milli: 1000,
            spec: DeciderSpec::default(),
            container_concurrency: None,
            smallest_size: 0,
            schedule: None,
            kept: None,
            learning: None,
        }
    }

    /// A workload that learns, with the user's `target` and an objective of 95 %.
    pub(crate) fn learning(name: &str, mode: autoscaler::settings::LearnTarget, target: f64) -> Self {
        use autoscaler::scaling::metric_target::MetricTarget;
        use autoscaler::settings::{AutoscalerConfig, Settings};
        use learning::MissBudget;

        let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
        let measure = MetricName::Concurrency;
        let target = MetricTarget::of(target, measure, 0, &settings);
        let mut learning = WorkloadLearning::new(&settings, measure, target, 0, true).unwrap();
        learning.mode = mode;
        learning.spec.objective = Some(MissBudget(0.05));
        Self {
            target_milli: target.milli(),
            spec: DeciderSpec::new(&settings, target),
            learning: Some(learning),
            ..Self::sample(name)
        }
    }
}

// === impl WorkloadTable ===

impl FromIterator<Workload> for WorkloadTable {
    fn from_iter<I: IntoIterator<Item = Workload>>(workloads: I) -> Self {
        let mut table = Self::default();
        for workload in workloads {
            table.insert(workload);
        }
        table
    }
}

impl WorkloadTable {
    /// Adds a workload, or replaces the one of the same name.
    pub fn insert(&mut self, workload: Workload) {
        self.remove(&workload.key);
        let service = (workload.key.namespace.clone(), workload.service.clone());
        self.by_service.entry(service).or_default().push(workload.key.clone());
        self.by_key.insert(workload.key.clone(), Arc::new(workload));
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(workload) = self.by_key.remove(key) else { return };
        let service = (key.namespace.clone(), workload.service.clone());
        if let Some(keys) = self.by_service.get_mut(&service) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.by_service.remove(&service);
            }
        }
    }

    /// The workload of this name.
    pub fn get(&self, key: &Key) -> Option<&Arc<Workload>> {
        self.by_key.get(key)
    }

    /// The workload that owns a Service, among those that name it.
    pub fn owner_of(&self, namespace: &str, service: &str) -> Option<&Arc<Workload>> {
        let named = self.by_service.get(&(namespace.to_owned(), service.to_owned()))?;
        let workloads = named.iter().filter_map(|key| self.by_key.get(key));
        workloads.min_by_key(|workload| (workload.rank, workload.key.clone()))
    }

    /// All workloads, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Workload>> {
        self.by_key.values()
    }

    /// The number of workloads.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
