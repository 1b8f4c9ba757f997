//! Workloads: what is collected and decided on, as one table that is replaced as a whole.
//!
//! Made by [`metric_watch`](crate::metric_watch) from Metrics, PodAutoscalers and the settings. The collector, the scrapers,
//! the multi-scaler and the API read the newest one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::collection::{Measure, Windows};
use autoscaler::decider::DeciderSpec;
use autoscaler::selector::Selector;
use tokio::sync::watch;

/// The newest table.
pub type WorkloadsReceiver = watch::Receiver<Arc<Workloads>>;

/// One workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name.
    pub key: Key,
    /// The Service by whose name it is asked for.
    pub service: String,
    /// Its pods.
    pub selector: Selector,
    /// What to collect over.
    pub windows: Windows,
    /// What is decided by.
    pub measure: Measure,
    /// Value of the measure that one pod should carry, in thousandths.
    pub target_milli: i64,
    /// How it is decided.
    pub spec: DeciderSpec,
}

/// All workloads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workloads {
    by_key: BTreeMap<Key, Arc<Workload>>,
    /// (namespace, Service) to those that scale on it; more than one is a mistake that the API names.
    by_service: HashMap<(String, String), Vec<Key>>,
}

// === impl Workload ===

#[cfg(test)]
impl Workload {
    /// One of this name in the namespace `shop`, with a window of a minute.
    pub(crate) fn sample(name: &str) -> Self {
        let (stable, panic) = (std::time::Duration::from_secs(60), std::time::Duration::from_secs(6));
        let aggregation = autoscaler::settings::Aggregation::Linear;
        Self {
            key: Key::new("shop", name),
            service: name.to_owned(),
            selector: Selector::parse("app=web").unwrap(),
            windows: Windows { stable, panic, aggregation },
            measure: Measure::Concurrency,
            target_milli: 1000,
            spec: DeciderSpec::default(),
        }
    }
}

// === impl Workloads ===

impl FromIterator<Workload> for Workloads {
    fn from_iter<I: IntoIterator<Item = Workload>>(workloads: I) -> Self {
        let mut table = Self::default();
        for workload in workloads {
            table.insert(workload);
        }
        table
    }
}

impl Workloads {
    /// Takes in a workload, in place of the one of its name.
    pub fn insert(&mut self, workload: Workload) {
        self.remove(&workload.key);
        let service = (workload.key.namespace.clone(), workload.service.clone());
        self.by_service.entry(service).or_default().push(workload.key.clone());
        self.by_key.insert(workload.key.clone(), Arc::new(workload));
    }

    /// Forgets a workload.
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

    /// The workloads that scale on a Service.
    pub fn on_service(&self, namespace: &str, service: &str) -> &[Key] {
        self.by_service.get(&(namespace.to_owned(), service.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// All, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Workload>> {
        self.by_key.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
