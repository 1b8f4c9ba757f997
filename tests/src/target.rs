//! Targets: what HPAs scale where the size alone matters, with a scale subresource and no pods.
//!
//! A target counts as many replicas as it should have, as if its pods were there at once, or as many as its test says. Around it
//! stands what the metrics-adapter needs (a Metric and a PodAutoscaler, which the zero-scaler would make) and a pod that nobody
//! schedules, so that silence is missing data and not sleep. The zero-scaler must be away
//! ([`installation::without_zero_scaler`](crate::installation::without_zero_scaler)): it would do its part with the sizes, too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::Key;
use autoscaler::api::{Metric, MetricSpec, PodAutoscaler};
use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS};
use futures::StreamExt;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::namespace::{SAMPLE_APP, TestNamespace};
use crate::wait;
use crate::workload::write_size;

const GROUP: &str = "tests.rouse.dev";
const VERSION: &str = "v1";
const KIND: &str = "Target";
/// An HPA finds a new kind when the controllers next forget what they know of the API: each half minute.
pub const KIND_IS_KNOWN: Duration = Duration::from_secs(60);

/// A target, and the HPA that scales it.
#[derive(Clone, Debug)]
pub struct Scaled {
    /// Name of all objects, and of the Service that the metric is asked by.
    pub name: String,
    /// `spec.replicas` at first.
    pub size: i32,
    /// The replicas that it says it has; else as many as it should have.
    pub counts: Option<i32>,
    /// Name by which its pod is found; another's, if two claim one.
    pub selects: String,
    /// The HPA's bounds.
    pub bounds: (i32, i32),
    /// What the HPA asks for.
    pub metric: &'static str,
    /// The HPA's `averageValue`.
    pub target: &'static str,
    /// The stable window.
    pub window: Duration,
    /// The HPA's `behavior`, or null.
    pub behavior: Value,
    /// One more metric of the HPA, which nobody has.
    pub asks_too_much: bool,
}

/// The targets of a namespace and their sizes; followed until dropped.
pub struct Targets {
    namespace: TestNamespace,
    sizes: Sizes,
    _watch: JoinSet<()>,
}

/// The sizes that each target has had, the first one included.
type Sizes = Arc<Mutex<BTreeMap<String, Vec<i32>>>>;

// === impl Scaled ===

impl Scaled {
    /// From 1 to 1000 replicas, on a concurrency of 70 each in a window of 6 s.
    pub fn new(name: &str, size: i32) -> Self {
        Self {
            name: name.to_owned(),
            size,
            counts: None,
            selects: name.to_owned(),
            bounds: (1, 1000),
            metric: METRIC_CONCURRENCY,
            target: "70",
            window: Duration::from_secs(6),
            behavior: Value::Null,
            asks_too_much: false,
        }
    }

    /// Its name for the adapter.
    pub fn key(&self, namespace: &TestNamespace) -> Key {
        Key::new(&namespace.name, &self.name)
    }

    /// Applies the HPA.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn create_autoscaler(&self, namespace: &TestNamespace) -> Result<()> {
        let api: Api<HorizontalPodAutoscaler> = namespace.api();
        api.create(&PostParams::default(), &serde_json::from_value(self.autoscaler())?)
            .await
            .with_context(|| format!("the HPA {}", self.name))?;
        Ok(())
    }

    fn autoscaler(&self) -> Value {
        let mut metrics = vec![self.external(self.metric)];
        metrics.extend(self.asks_too_much.then(|| self.external("of-nobody")));
        json!({
            "metadata": {"name": self.name},
            "spec": {
                "scaleTargetRef": self.reference(),
                "minReplicas": self.bounds.0,
                "maxReplicas": self.bounds.1,
                "metrics": metrics,
                "behavior": self.behavior,
            },
        })
    }

    fn external(&self, metric: &str) -> Value {
        json!({
            "type": "External",
            "external": {
                "metric": {"name": metric, "selector": {"matchLabels": {"service": self.name}}},
                "target": {"type": "AverageValue", "averageValue": self.target},
            },
        })
    }

    fn pod(&self) -> Value {
        json!({
            "metadata": {
                "name": self.name,
                "labels": {"app": self.name, "autoscaling.rouse.dev/inject": "true"},
            },
            "spec": {
                "schedulerName": "nobody",
                "automountServiceAccountToken": false,
                "containers": [{"name": "app", "image": SAMPLE_APP, "ports": [{"containerPort": 8080}]}],
            },
        })
    }

    /// What points to it.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": KIND, "name": self.name})
    }

    fn metric(&self) -> Metric {
        let spec = MetricSpec {
            service: self.name.clone(),
            selector: format!("app={}", self.name),
            stable_window_seconds: u32::try_from(self.window.as_secs()).unwrap_or(u32::MAX),
            panic_window_seconds: 1,
            aggregation: "linear".to_owned(),
        };
        Metric::new(&self.name, spec)
    }

    fn pod_autoscaler(&self) -> Result<PodAutoscaler> {
        // The HPA may ask for something else than what is decided by.
        let (metric, target) = match self.metric {
            METRIC_RPS => (METRIC_RPS, self.target),
            METRIC_DESIRED => (METRIC_CONCURRENCY, "70"),
            _ => (METRIC_CONCURRENCY, self.target),
        };
        let spec = json!({
            "scaleTargetRef": self.reference(),
            "service": self.name,
            "metric": metric,
            "target": target,
        });
        let mut autoscaler = PodAutoscaler::new(&self.name, serde_json::from_value(spec)?);
        let annotations = [
            ("window", format!("{}s", self.window.as_secs())),
            // In a panic the metric is what was decided. Ten times the ready pods, of which there are none, are one.
            ("panic-threshold-percentage", "1000".to_owned()),
        ];
        let annotations = annotations.map(|(key, value)| (format!("autoscaling.rouse.dev/{key}"), value));
        autoscaler.metadata.annotations = Some(annotations.into());
        Ok(autoscaler)
    }
}

// === impl Targets ===

impl Targets {
    /// Makes the kind, if it is not there yet, and follows those of a namespace.
    ///
    /// # Errors
    /// When the API server does not take it.
    pub async fn follow(namespace: &TestNamespace) -> Result<Self> {
        define(&namespace.client).await?;
        let sizes = Sizes::default();
        let mut watch = JoinSet::new();
        watch.spawn(count(targets(namespace), sizes.clone()));
        Ok(Self { namespace: namespace.clone(), sizes, _watch: watch })
    }

    /// Applies all of a target but its HPA.
    ///
    /// # Errors
    /// When the API refuses one of the objects.
    pub async fn create(&self, scaled: &Scaled) -> Result<()> {
        let create = PostParams::default();
        let pods: Api<Pod> = self.namespace.api();
        pods.create(&create, &serde_json::from_value(scaled.pod())?).await.context("its pod")?;
        let metrics: Api<Metric> = self.namespace.api();
        metrics.create(&create, &scaled.metric()).await.context("its Metric")?;
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        autoscalers.create(&create, &scaled.pod_autoscaler()?).await.context("its PodAutoscaler")?;
        self.create_alone(scaled).await
    }

    /// Applies the target itself, whose pods others make.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn create_alone(&self, scaled: &Scaled) -> Result<()> {
        let target = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": KIND,
            "metadata": {"name": scaled.name},
            "spec": {"replicas": scaled.size, "counts": scaled.counts, "selects": scaled.selects},
        });
        targets(&self.namespace).create(&PostParams::default(), &serde_json::from_value(target)?).await?;
        Ok(())
    }

    /// Writes a size, as somebody else than the HPA.
    ///
    /// # Errors
    /// When the API refuses.
    pub async fn scale(&self, name: &str, size: i32) -> Result<()> {
        write_size(&targets(&self.namespace), name, size).await
    }

    /// The sizes that a target has had.
    pub fn sizes(&self, name: &str) -> Vec<i32> {
        lock(&self.sizes).get(name).cloned().unwrap_or_default()
    }

    /// The targets that have had another size than their first, and all sizes of those.
    pub fn changed(&self) -> Vec<(String, Vec<i32>)> {
        let sizes = lock(&self.sizes);
        sizes.iter().filter(|(_, sizes)| sizes.len() > 1).map(|(n, s)| (n.clone(), s.clone())).collect()
    }
}

fn targets(namespace: &TestNamespace) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, KIND));
    Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource)
}

/// Records sizes, and has each target count its replicas.
async fn count(targets: Api<DynamicObject>, sizes: Sizes) {
    let mut objects =
        watcher(targets.clone(), watcher::Config::default()).default_backoff().applied_objects().boxed();
    while let Some(object) = objects.next().await {
        let Ok(object) = object else { continue };
        let number = |path: &str| object.data.pointer(path).and_then(Value::as_i64);
        let Some(size) = number("/spec/replicas").and_then(|size| i32::try_from(size).ok()) else { continue };
        {
            let mut sizes = lock(&sizes);
            let known = sizes.entry(object.name_any()).or_default();
            if known.last() != Some(&size) {
                known.push(size);
            }
        }
        let counted = number("/spec/counts").unwrap_or(i64::from(size));
        if number("/status/replicas") != Some(counted) {
            let selects = object.data.pointer("/spec/selects").and_then(Value::as_str).unwrap_or_default();
            let status = json!({"status": {"replicas": counted, "selector": format!("app={selects}")}});
            let patched = targets
                .patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(status))
                .await;
            if let Err(error) = patched {
                println!("{}: its count could not be written: {error}", object.name_any());
            }
        }
    }
}

fn lock(sizes: &Sizes) -> MutexGuard<'_, BTreeMap<String, Vec<i32>>> {
    sizes.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn define(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = serde_json::from_value(definition())?;
    match definitions.create(&PostParams::default(), &definition).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created?),
    }
    wait::until("the kind of targets to be served", Duration::from_secs(30), || async {
        let status = definitions.get(&definition.name_any()).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        Ok(conditions.any(|c| c.type_ == "Established" && c.status == "True").then_some(()))
    })
    .await
}

fn definition() -> Value {
    let number = json!({"type": "integer", "minimum": 0});
    let properties = json!({
        "spec": {"type": "object", "properties": {
            "replicas": number, "selects": {"type": "string"},
            "counts": {"type": "integer", "minimum": 0, "nullable": true},
        }},
        "status": {"type": "object", "properties": {"replicas": number, "selector": {"type": "string"}}},
    });
    json!({
        "metadata": {"name": format!("targets.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": KIND, "plural": "targets", "singular": "target"},
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }],
        },
    })
}
