//! MetricWatch: builds the table of workloads from Metrics, PodAutoscalers and the settings
//! ConfigMap.
//!
//! A workload is in the table if its Metric and its PodAutoscaler both exist and are valid; an
//! invalid one is logged once. A workload with an object that can no longer be decoded stays as it
//! is. An invalid ConfigMap changes nothing: the accepted copy stays in force.
//!
//! Changes are batched briefly, so that a start with thousands of objects builds a few tables and
//! not thousands. Only changed workloads are rebuilt, because PodAutoscaler statuses change all the
//! time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{Metric, MetricSpec, OwnershipRank, PodAutoscaler, PodAutoscalerStatus, key_of};
use autoscaler::contract::selector::Selector;
use autoscaler::contract::{ACCEPTED_CONFIG_MAP, CONFIG_MAP};
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::scaling::metric_target::MetricTargetError;
use autoscaler::settings::{AutoscalerConfig, Pause, Settings};
use autoscaler::stats::collection::WindowSpec;
use component_base::kubernetes::{Decoded, ObservedSettings, logged, watch_objects, watch_settings};
use component_base::readiness::{Readiness, ReadinessLatch};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use learning::WorkloadLearning;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::watches::stored_learning::StoredLearning;
use crate::watches::workloads::{KeptSize, Workload, WorkloadTable};

/// How long changes are batched.
const BATCH_DELAY: Duration = Duration::from_millis(20);

/// Watches the three API resources and builds the table.
pub struct MetricWatch {
    metrics: Store<Decoded<Metric>>,
    pod_autoscalers: Store<Decoded<PodAutoscaler>>,
    events: BoxStream<'static, WatchEvent>,
    /// Workloads to rebuild.
    dirty: DirtyWorkloads,
    /// Resources whose first list has not come yet.
    latches: HashMap<WatchedResource, ReadinessLatch>,
    config: AutoscalerConfig,
    /// The last error of each invalid workload, so that each is logged once.
    errors: BTreeMap<Key, String>,
    table: watch::Sender<Arc<WorkloadTable>>,
    counters: Metrics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WatchedResource {
    Metric,
    PodAutoscaler,
    Config,
}

enum WatchEvent {
    Object(Option<Key>),
    /// A part of an incomplete list.
    Listing,
    Listed(WatchedResource),
    Config(Box<ObservedSettings>),
}

/// The workloads that may have changed.
#[derive(Debug, PartialEq)]
enum DirtyWorkloads {
    Some(HashSet<Key>),
    All,
}

/// Why a workload is invalid.
#[derive(Debug, thiserror::Error)]
enum InvalidWorkload {
    #[error("invalid selector in the Metric: {0}")]
    Selector(#[from] autoscaler::contract::selector::ParseSelectorError),
    #[error("invalid target in the PodAutoscaler: {0}")]
    Target(#[from] MetricTargetError),
}

// === impl MetricWatch ===

impl MetricWatch {
    /// A watch that sends to `table` once it runs.
    pub fn new(
        client: &Client,
        namespace: &str,
        readiness: &Readiness,
        table: watch::Sender<Arc<WorkloadTable>>,
        counters: Metrics,
    ) -> Self {
        let (metrics, metric_writer) = reflector::store();
        let (pod_autoscalers, pod_autoscaler_writer) = reflector::store();
        let all = watcher::Config::default;
        let metric_api = Api::<Decoded<Metric>>::all(client.clone());
        let metric_errors = counters.decode_errors.of(&Metric::kind(&()));
        let metric_events = watch_objects(metric_api, all(), metric_errors)
            .modify(|metric| metric.meta_mut().managed_fields = None)
            .reflect(metric_writer);
        let metric_events = logged(metric_events, "Metrics".to_owned())
            .map(|event| watch_event(WatchedResource::Metric, event));
        let pod_autoscaler_api = Api::<Decoded<PodAutoscaler>>::all(client.clone());
        let pod_autoscaler_errors = counters.decode_errors.of(&PodAutoscaler::kind(&()));
        let pod_autoscaler_events = watch_objects(pod_autoscaler_api, all(), pod_autoscaler_errors)
            .modify(|autoscaler| {
                autoscaler.meta_mut().managed_fields = None;
                if let Ok(autoscaler) = &mut autoscaler.0 {
                    let autoscaler = Arc::make_mut(autoscaler);
                    autoscaler.status = autoscaler.status.take().map(read_status);
                }
            })
            .reflect(pod_autoscaler_writer);
        let pod_autoscaler_events = logged(pod_autoscaler_events, "PodAutoscalers".to_owned())
            .map(|event| watch_event(WatchedResource::PodAutoscaler, event));
        let config_events = watch_settings(client, namespace, CONFIG_MAP, ACCEPTED_CONFIG_MAP)
            .map(|observed| WatchEvent::Config(Box::new(observed)));
        let events = [metric_events.boxed(), pod_autoscaler_events.boxed(), config_events.boxed()];
        Self {
            metrics,
            pod_autoscalers,
            events: stream::select_all(events).boxed(),
            dirty: DirtyWorkloads::All,
            latches: HashMap::from([
                (WatchedResource::Metric, readiness.latch("metrics")),
                (WatchedResource::PodAutoscaler, readiness.latch("podautoscalers")),
                (WatchedResource::Config, readiness.latch("configmap config-autoscaler")),
            ]),
            config: AutoscalerConfig::default(),
            errors: BTreeMap::new(),
            table,
            counters,
        }
    }

    /// What the PodAutoscalers have about learning, from this watch.
    pub fn stored_learning(&self) -> StoredLearning {
        StoredLearning::new(self.pod_autoscalers.clone())
    }

    /// Updates the table until a watch ends.
    pub async fn run(mut self) {
        let mut rebuild_at: Option<Instant> = None;
        loop {
            let due = rebuild_at.unwrap_or_else(Instant::now);
            tokio::select! {
                event = self.events.next() => match event {
                    Some(event) => if self.handle(event) {
                        rebuild_at.get_or_insert_with(|| Instant::now() + BATCH_DELAY);
                    },
                    None => return,
                },
                () = tokio::time::sleep_until(due), if rebuild_at.is_some() => {
                    rebuild_at = None;
                    self.rebuild();
                }
            }
        }
    }

    /// Handles one event; returns whether the table may have changed.
    fn handle(&mut self, event: WatchEvent) -> bool {
        match event {
            WatchEvent::Object(key) => self.dirty.add(key),
            WatchEvent::Listing => return false,
            WatchEvent::Listed(resource) => {
                self.latches.remove(&resource);
                self.dirty = DirtyWorkloads::All;
            }
            WatchEvent::Config(observed) => {
                self.reload(&observed);
                if self.latches.remove(&WatchedResource::Config).is_some() {
                    self.dirty = DirtyWorkloads::All;
                }
            }
        }
        // Until every list has come, a table would lack workloads that exist.
        self.latches.is_empty() && self.dirty != DirtyWorkloads::default()
    }

    fn reload(&mut self, observed: &ObservedSettings) {
        for error in AutoscalerConfig::parse(&observed.submitted_data()).err().into_iter().flatten() {
            self.counters.setting_errors.inc();
            tracing::error!(config_map = CONFIG_MAP, %error, "invalid setting, keeping the last valid settings");
        }
        let Ok(config) = AutoscalerConfig::parse(&observed.in_force()) else { return };
        if config != self.config {
            tracing::info!(?config, "settings changed");
            self.dirty = DirtyWorkloads::All;
        }
        self.config = config;
    }

    fn rebuild(&mut self) {
        let current = self.table.borrow().clone();
        let keys = match std::mem::take(&mut self.dirty) {
            DirtyWorkloads::Some(keys) => keys,
            DirtyWorkloads::All => self.all_keys(&current),
        };
        let mut changes = Vec::new();
        for key in keys {
            let before = current.get(&key).map(Arc::as_ref);
            let new = self.build(&key, before);
            if before != new.as_ref() {
                changes.push((key, new));
            }
        }
        if changes.is_empty() {
            return;
        }
        let mut table = WorkloadTable::clone(&current);
        for (key, new) in changes {
            match new {
                Some(workload) => table.insert(workload),
                None => table.remove(&key),
            }
        }
        tracing::info!(workloads = table.len(), "workload table updated");
        self.table.send_replace(Arc::new(table));
    }

    /// The workloads that exist, and those that the table or the errors still have.
    fn all_keys(&self, current: &WorkloadTable) -> HashSet<Key> {
        let autoscalers = self.pod_autoscalers.state();
        let existing = autoscalers.iter().filter_map(|autoscaler| key_of(autoscaler.as_ref()));
        existing
            .chain(current.iter().map(|workload| workload.key.clone()))
            .chain(self.errors.keys().cloned())
            .collect()
    }

    /// The workload of this name, if it exists and is valid. Without both objects decoded it is
    /// `before`.
    fn build(&mut self, key: &Key, before: Option<&Workload>) -> Option<Workload> {
        let autoscaler = self.pod_autoscalers.get(&ObjectRef::new(&key.name).within(&key.namespace));
        let metric = self.metrics.get(&ObjectRef::new(&key.name).within(&key.namespace));
        let (Some(autoscaler), Some(metric)) = (autoscaler, metric) else {
            self.errors.remove(key);
            return None;
        };
        let (Ok(autoscaler), Ok(metric)) = (&autoscaler.0, &metric.0) else { return before.cloned() };
        let (mut settings, errors) = autoscaler.spec.settings(&self.config, autoscaler.annotations());
        settings.apply_sidecar_mode(metric.spec.sidecar);
        let mut messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let workload = workload(key, &metric.spec, autoscaler, &settings);
        messages.extend(workload.as_ref().err().map(ToString::to_string));
        self.log_errors(key, messages.join("; "));
        workload.ok()
    }

    fn log_errors(&mut self, key: &Key, errors: String) {
        if errors.is_empty() {
            self.errors.remove(key);
        } else if self.errors.get(key) != Some(&errors) {
            self.counters.setting_errors.inc();
            tracing::warn!(workload = %key, %errors, "invalid workload settings");
            self.errors.insert(key.clone(), errors);
        }
    }
}

// === impl DirtyWorkloads ===

impl Default for DirtyWorkloads {
    fn default() -> Self {
        Self::Some(HashSet::new())
    }
}

impl DirtyWorkloads {
    fn add(&mut self, key: Option<Key>) {
        if let (Self::Some(keys), Some(key)) = (self, key) {
            keys.insert(key);
        }
    }
}

impl std::fmt::Debug for MetricWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricWatch").field("unlisted", &self.latches).finish_non_exhaustive()
    }
}

fn watch_event<K: ResourceExt>(resource: WatchedResource, event: Event<K>) -> WatchEvent {
    match event {
        Event::Init | Event::InitApply(_) => WatchEvent::Listing,
        Event::InitDone => WatchEvent::Listed(resource),
        Event::Apply(object) | Event::Delete(object) => WatchEvent::Object(key_of(&object)),
    }
}

/// The part of a status that this process reads. Learning is not part of a [`Workload`], so a
/// checkpoint changes no table.
fn read_status(status: PodAutoscalerStatus) -> PodAutoscalerStatus {
    let PodAutoscalerStatus { learning, replicas, .. } = status;
    PodAutoscalerStatus { learning, replicas, ..PodAutoscalerStatus::default() }
}

fn workload(
    key: &Key,
    metric: &MetricSpec,
    autoscaler: &PodAutoscaler,
    settings: &Settings,
) -> Result<Workload, InvalidWorkload> {
    let spec = &autoscaler.spec;
    let limit = spec.limit(metric.container_concurrency);
    let target = spec.target(metric.container_concurrency, settings)?;
    let measure = spec.metric_name(settings);
    let learning = WorkloadLearning::new(settings, measure, target, limit, spec.names_target(settings));
    Ok(Workload {
        key: key.clone(),
        service: metric.service.clone(),
        rank: OwnershipRank::new(autoscaler, settings),
        selector: Selector::parse(&metric.selector)?,
        target_selector: metric.target_selector.as_deref().map(Selector::parse).transpose()?,
        sidecar: metric.sidecar,
        bypassed: metric.bypassed,
        windows: WindowSpec::from(settings),
        measure,
        target_milli: target.milli(),
        spec: DeciderSpec::new(settings, target),
        container_concurrency: (limit > 0).then_some(limit),
        smallest_size: settings.scale.min,
        schedule: settings.schedule_in_force(),
        kept: kept_size(settings.scale.pause, autoscaler),
        learning: learning.filter(|_| spec.learns(settings)),
    })
}

fn kept_size(pause: Pause, autoscaler: &PodAutoscaler) -> Option<KeptSize> {
    let replicas = autoscaler.status.as_ref().and_then(|status| status.replicas);
    let size = replicas.and_then(|replicas| u32::try_from(replicas).ok());
    (pause != Pause::Off).then_some(KeptSize { pause, size })
}

#[cfg(test)]
mod tests;
