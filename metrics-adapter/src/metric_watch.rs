//! MetricWatch: Metrics, PodAutoscalers and the ConfigMap become the table of workloads.
//!
//! A workload is in the table when its Metric and its PodAutoscaler are both there and make sense; what does not is logged
//! once. A bad ConfigMap changes nothing: the last good one stays in force. Changes are gathered for a moment, so that a
//! start with thousands of objects makes a few tables and not thousands; and only what changed is looked at, for the status of one
//! or the other PodAutoscaler changes all the time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{Metric, MetricSpec, PodAutoscaler, key_of};
use autoscaler::collection::Windows;
use autoscaler::config::AutoscalerConfig;
use autoscaler::contract::CONFIG_MAP;
use autoscaler::decider::DeciderSpec;
use autoscaler::selector::Selector;
use autoscaler::settings::{Aggregation, Settings};
use autoscaler::target::TargetError;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use runtime::readiness::{Readiness, ReadinessLatch};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::workloads::{Workload, Workloads};

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(20);

/// Follows the three kinds of objects.
pub struct MetricWatch {
    metrics: Store<Metric>,
    pod_autoscalers: Store<PodAutoscaler>,
    events: BoxStream<'static, Seen>,
    /// What the table does not know of yet.
    news: News,
    latches: HashMap<Kind, ReadinessLatch>,
    config: AutoscalerConfig,
    /// The last complaint about each workload, so that each is logged once.
    complaints: BTreeMap<Key, String>,
    table: watch::Sender<Arc<Workloads>>,
    counters: Metrics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Metric,
    PodAutoscaler,
    Config,
}

/// What a watch brought.
enum Seen {
    Object(Option<Key>),
    /// Something of a list that is not whole yet.
    Listing,
    Listed(Kind),
    Config(BTreeMap<String, String>),
    Failed(Kind, watcher::Error),
}

/// Which workloads may have changed.
#[derive(Debug, PartialEq)]
enum News {
    Of(HashSet<Key>),
    OfAll,
}

/// Why a workload is not in the table.
#[derive(Debug, thiserror::Error)]
enum BadWorkload {
    #[error("its Metric's selector: {0}")]
    Selector(#[from] autoscaler::selector::ParseSelectorError),
    #[error("its PodAutoscaler: {0}")]
    Target(#[from] TargetError),
}

// === impl MetricWatch ===

impl MetricWatch {
    /// A watch that fills `table` once it runs.
    pub fn new(
        client: &Client,
        namespace: &str,
        readiness: &Readiness,
        table: watch::Sender<Arc<Workloads>>,
        counters: Metrics,
    ) -> Self {
        let (metrics, metric_writer) = reflector::store();
        let (pod_autoscalers, pod_autoscaler_writer) = reflector::store();
        let all = watcher::Config::default;
        let metric_events = watcher(Api::<Metric>::all(client.clone()), all())
            .default_backoff()
            .modify(|metric| metric.metadata.managed_fields = None)
            .reflect(metric_writer)
            .map(|event| seen(Kind::Metric, event));
        let pod_autoscaler_events = watcher(Api::<PodAutoscaler>::all(client.clone()), all())
            .default_backoff()
            .modify(|autoscaler| {
                autoscaler.metadata.managed_fields = None;
                autoscaler.status = None;
            })
            .reflect(pod_autoscaler_writer)
            .map(|event| seen(Kind::PodAutoscaler, event));
        let only_ours = all().fields(&format!("metadata.name={CONFIG_MAP}"));
        let config_events = watcher(Api::<ConfigMap>::namespaced(client.clone(), namespace), only_ours)
            .default_backoff()
            .map(config_seen);
        let events = [metric_events.boxed(), pod_autoscaler_events.boxed(), config_events.boxed()];
        Self {
            metrics,
            pod_autoscalers,
            events: stream::select_all(events).boxed(),
            news: News::OfAll,
            latches: HashMap::from([
                (Kind::Metric, readiness.latch("metrics")),
                (Kind::PodAutoscaler, readiness.latch("podautoscalers")),
                (Kind::Config, readiness.latch("configmap config-autoscaler")),
            ]),
            config: AutoscalerConfig::default(),
            complaints: BTreeMap::new(),
            table,
            counters,
        }
    }

    /// Keeps the table true.
    pub async fn run(mut self) {
        let mut rebuild_at: Option<Instant> = None;
        loop {
            let due = rebuild_at.unwrap_or_else(Instant::now);
            tokio::select! {
                seen = self.events.next() => match seen {
                    Some(seen) => if self.take_in(seen) {
                        rebuild_at.get_or_insert_with(|| Instant::now() + GATHER);
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

    /// Whether the table may have changed.
    fn take_in(&mut self, seen: Seen) -> bool {
        match seen {
            Seen::Object(key) => self.news.add(key),
            Seen::Listing => return false,
            Seen::Listed(kind) => {
                self.latches.remove(&kind);
                self.news = News::OfAll;
            }
            Seen::Config(data) => self.reload(&data),
            Seen::Failed(kind, error) => {
                tracing::warn!(?kind, %error, "a watch failed; it is tried again");
                return false;
            }
        }
        // Until every list has come, a table would be missing what is only not known yet.
        self.latches.is_empty() && self.news != News::default()
    }

    fn reload(&mut self, data: &BTreeMap<String, String>) {
        match AutoscalerConfig::parse(data) {
            Ok(config) => {
                if config != self.config {
                    tracing::info!(?config, "new settings");
                    self.news = News::OfAll;
                }
                self.config = config;
            }
            Err(errors) => {
                for error in errors {
                    self.counters.setting_errors.inc();
                    tracing::error!(config_map = CONFIG_MAP, %error, "the last good settings stay in force");
                }
            }
        }
    }

    fn rebuild(&mut self) {
        let known = self.table.borrow().clone();
        let keys = match std::mem::take(&mut self.news) {
            News::Of(keys) => keys,
            News::OfAll => self.all(&known),
        };
        let mut changes = Vec::new();
        for key in keys {
            let new = self.look_at(&key);
            if known.get(&key).map(Arc::as_ref) != new.as_ref() {
                changes.push((key, new));
            }
        }
        if changes.is_empty() {
            return;
        }
        let mut table = Workloads::clone(&known);
        for (key, new) in changes {
            match new {
                Some(workload) => table.insert(workload),
                None => table.remove(&key),
            }
        }
        tracing::info!(workloads = table.len(), "workloads");
        self.table.send_replace(Arc::new(table));
    }

    /// Those that are there, and those that were.
    fn all(&self, known: &Workloads) -> HashSet<Key> {
        let autoscalers = self.pod_autoscalers.state();
        let there = autoscalers.iter().filter_map(|autoscaler| key_of(autoscaler.as_ref()));
        there
            .chain(known.iter().map(|workload| workload.key.clone()))
            .chain(self.complaints.keys().cloned())
            .collect()
    }

    /// The workload of this name, if there is one that makes sense.
    fn look_at(&mut self, key: &Key) -> Option<Workload> {
        let autoscaler = self.pod_autoscalers.get(&ObjectRef::new(&key.name).within(&key.namespace));
        let metric = self.metrics.get(&ObjectRef::new(&key.name).within(&key.namespace));
        let (Some(autoscaler), Some(metric)) = (autoscaler, metric) else {
            self.complaints.remove(key);
            return None;
        };
        let (settings, errors) = autoscaler.spec.settings(&self.config, autoscaler.annotations());
        let mut complaint: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let workload = workload(key, &metric.spec, &autoscaler, &settings);
        complaint.extend(workload.as_ref().err().map(ToString::to_string));
        self.complain(key, complaint.join("; "));
        workload.ok()
    }

    fn complain(&mut self, key: &Key, complaint: String) {
        if complaint.is_empty() {
            self.complaints.remove(key);
        } else if self.complaints.get(key) != Some(&complaint) {
            self.counters.setting_errors.inc();
            tracing::warn!(workload = %key, %complaint, "something of this workload is not accepted");
            self.complaints.insert(key.clone(), complaint);
        }
    }
}

// === impl News ===

impl Default for News {
    fn default() -> Self {
        Self::Of(HashSet::new())
    }
}

impl News {
    fn add(&mut self, key: Option<Key>) {
        if let (Self::Of(keys), Some(key)) = (self, key) {
            keys.insert(key);
        }
    }
}

impl std::fmt::Debug for MetricWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricWatch").field("awaited", &self.latches).finish_non_exhaustive()
    }
}

fn seen<K: ResourceExt>(kind: Kind, event: Result<Event<K>, watcher::Error>) -> Seen {
    match event {
        Ok(Event::Init | Event::InitApply(_)) => Seen::Listing,
        Ok(Event::InitDone) => Seen::Listed(kind),
        Ok(Event::Apply(object) | Event::Delete(object)) => Seen::Object(key_of(&object)),
        Err(error) => Seen::Failed(kind, error),
    }
}

fn config_seen(event: Result<Event<ConfigMap>, watcher::Error>) -> Seen {
    match event {
        Ok(Event::Apply(map) | Event::InitApply(map)) => Seen::Config(map.data.unwrap_or_default()),
        // Without a ConfigMap the defaults are in force.
        Ok(Event::Delete(_)) => Seen::Config(BTreeMap::new()),
        other => seen(Kind::Config, other),
    }
}

fn workload(
    key: &Key,
    metric: &MetricSpec,
    autoscaler: &PodAutoscaler,
    settings: &Settings,
) -> Result<Workload, BadWorkload> {
    let spec = &autoscaler.spec;
    let target = spec.target(settings)?;
    Ok(Workload {
        key: key.clone(),
        service: metric.service.clone(),
        selector: Selector::parse(&metric.selector)?,
        windows: windows(metric),
        measure: spec.measure(settings),
        target_milli: target.milli(),
        spec: DeciderSpec::new(settings, target),
    })
}

fn windows(metric: &MetricSpec) -> Windows {
    let aggregation = match metric.aggregation.as_str() {
        "weighted-exponential" => Aggregation::WeightedExponential,
        // The zero-scaler writes one of the two.
        _ => Aggregation::Linear,
    };
    Windows {
        stable: Duration::from_secs(metric.stable_window_seconds.clamp(1, 3600).into()),
        panic: Duration::from_secs(metric.panic_window_seconds.clamp(1, 3600).into()),
        aggregation,
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::collection::Measure;
    use serde_json::{Value, json};

    use super::*;

    fn objects(spec: Value, annotations: Value, selector: &str) -> (MetricSpec, PodAutoscaler) {
        let metric = serde_json::from_value(json!({
            "service": "web", "selector": selector, "stableWindowSeconds": 60, "panicWindowSeconds": 6,
            "aggregation": "linear",
        }));
        let mut autoscaler = json!({
            "metadata": {"namespace": "shop", "name": "web", "annotations": annotations},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "service": "web",
            },
        });
        autoscaler["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        (metric.unwrap(), serde_json::from_value(autoscaler).unwrap())
    }

    fn build_of(spec: Value, annotations: Value, selector: &str) -> Result<Workload, BadWorkload> {
        let (metric, autoscaler) = objects(spec, annotations, selector);
        let (settings, errors) =
            autoscaler.spec.settings(&AutoscalerConfig::default(), autoscaler.annotations());
        assert_eq!(errors, []);
        workload(&Key::new("shop", "web"), &metric, &autoscaler, &settings)
    }

    fn build(target: &str, selector: &str) -> Result<Workload, BadWorkload> {
        let spec = json!({"metric": "requests-per-second", "target": target, "maxReplicas": 5});
        build_of(spec, json!({}), selector)
    }

    #[test]
    fn a_workload_is_made_of_its_metric_and_its_pod_autoscaler() {
        let workload = build("0.7", "app=web").unwrap();
        assert_eq!((workload.target_milli, workload.spec.target), (700, 0.7));
        assert_eq!(workload.spec.total, 1.0);
        assert!(workload.spec.reachable);
        assert_eq!(workload.measure, Measure::RequestsPerSecond);
        assert_eq!(workload.windows.panic, Duration::from_secs(6));
    }

    #[test]
    fn a_workload_without_a_target_takes_it_from_its_annotations() {
        let annotations = json!({
            "autoscaling.rouse.dev/metric": "rps", "autoscaling.rouse.dev/target": "300",
            "autoscaling.rouse.dev/reachability": "Unreachable",
        });
        let workload = build_of(json!({}), annotations, "app=web").unwrap();
        assert_eq!(workload.measure, Measure::RequestsPerSecond);
        assert_eq!((workload.target_milli, workload.spec.total), (210_000, 300.0));
        assert!(!workload.spec.reachable);
        let plain = build_of(json!({"containerConcurrency": 10}), json!({}), "app=web").unwrap();
        assert_eq!(plain.measure, Measure::Concurrency);
        assert_eq!((plain.target_milli, plain.spec.total), (7000, 10.0));
    }

    #[test]
    fn nonsense_is_refused_with_the_reason() {
        for (target, selector, part) in [
            ("0", "app=web", "above 0"),
            ("-1", "", "above 0"),
            ("x", "", "quantity"),
            ("1", "=", "selector"),
        ] {
            let error = build(target, selector).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
