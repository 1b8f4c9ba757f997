//! Scale targets: custom resources with a scale subresource and no pods, for tests of sizes alone.
//!
//! A target reports as many replicas as its spec has, as if pods started in no time, or a number
//! that the test sets. With it come the objects that the metrics-adapter needs: a Metric and a
//! PodAutoscaler, which the zero-scaler would create, and a pod that is never scheduled, so that
//! missing reports count as missing data and not as no load. The zero-scaler must not run
//! ([`without_zero_scaler`](crate::cluster::installation::without_zero_scaler)), because it would
//! write sizes, too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::Key;
use autoscaler::api::{Metric, MetricSpec, PodAutoscaler};
use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS};
use autoscaler::settings::SidecarMode;
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

use crate::cluster::namespace::{SAMPLE_APP, TestNamespace};
use crate::cluster::scale::write_scale;
use crate::wait;

const GROUP: &str = "tests.rouse.dev";
const VERSION: &str = "v1";
const KIND: &str = "Target";
/// Time for HPAs to find the new kind: kube-controller-manager refreshes its discovery every 30 s.
pub const KIND_DISCOVERY: Duration = Duration::from_secs(60);

/// A custom resource and the HPA that scales it.
#[derive(Clone, Debug)]
pub struct ScaleTarget {
    /// Name of all objects, and of the Service in the metric's selector.
    pub name: String,
    /// Initial `spec.replicas`.
    pub size: i32,
    /// `status.replicas`; `None`: the same as `spec.replicas`.
    pub reported_replicas: Option<i32>,
    /// Label value of the pods that its selector selects; another target's value makes two HPAs
    /// ambiguous.
    pub selected_app: String,
    /// The HPA's bounds.
    pub bounds: (i32, i32),
    /// The HPA's metric.
    pub metric: &'static str,
    /// The HPA's `averageValue`.
    pub target: &'static str,
    /// The stable window.
    pub window: Duration,
    /// The HPA's `behavior`, or null.
    pub behavior: Value,
    /// Whether the HPA has a second metric, one that does not exist.
    pub has_unknown_metric: bool,
}

/// The targets of a namespace and the sizes that they have had; updated until dropped.
pub struct ScaleTargets {
    namespace: TestNamespace,
    sizes: Sizes,
    _watch: JoinSet<()>,
}

/// The sizes of each target in order, the initial one included.
type Sizes = Arc<Mutex<BTreeMap<String, Vec<i32>>>>;

// === impl ScaleTarget ===

impl ScaleTarget {
    /// A target with 1 to 1000 replicas, a concurrency of 70 each and a window of 6 s.
    pub fn new(name: &str, size: i32) -> Self {
        Self {
            name: name.to_owned(),
            size,
            reported_replicas: None,
            selected_app: name.to_owned(),
            bounds: (1, 1000),
            metric: METRIC_CONCURRENCY,
            target: "70",
            window: Duration::from_secs(6),
            behavior: Value::Null,
            has_unknown_metric: false,
        }
    }

    /// The adapter's key of the target.
    pub fn key(&self, namespace: &TestNamespace) -> Key {
        Key::new(&namespace.name, &self.name)
    }

    /// Applies the HPA.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn create_hpa(&self, namespace: &TestNamespace) -> Result<()> {
        let api: Api<HorizontalPodAutoscaler> = namespace.api();
        api.create(&PostParams::default(), &serde_json::from_value(self.hpa())?)
            .await
            .with_context(|| format!("the HPA {}", self.name))?;
        Ok(())
    }

    fn hpa(&self) -> Value {
        let mut metrics = vec![self.external(self.metric)];
        metrics.extend(self.has_unknown_metric.then(|| self.external("unknown-metric")));
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
                "schedulerName": "none",
                "automountServiceAccountToken": false,
                "containers": [{"name": "app", "image": SAMPLE_APP, "ports": [{"containerPort": 8080}]}],
            },
        })
    }

    /// The `scaleTargetRef` that points to it.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": KIND, "name": self.name})
    }

    fn metric(&self) -> Metric {
        let (service, selector) = (self.name.clone(), format!("app={}", self.name));
        let spec = MetricSpec {
            service,
            selector,
            target_selector: None,
            sidecar: SidecarMode::Required,
            container_concurrency: None,
            bypassed: false,
        };
        Metric::new(&self.name, spec)
    }

    fn pod_autoscaler(&self) -> Result<PodAutoscaler> {
        // The decider's metric need not be the HPA's.
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
            // In a panic the metric is the decision instead of the load. No pod is ready, which
            // counts as one, so loads of fewer than ten pods cause no panic.
            ("panic-threshold-percentage", "1000".to_owned()),
        ];
        let annotations = annotations.map(|(key, value)| (format!("autoscaling.rouse.dev/{key}"), value));
        autoscaler.metadata.annotations = Some(annotations.into());
        Ok(autoscaler)
    }
}

// === impl ScaleTargets ===

impl ScaleTargets {
    /// Defines the kind, if necessary, and watches the targets of a namespace.
    ///
    /// # Errors
    /// When the API server rejects the definition.
    pub async fn follow(namespace: &TestNamespace) -> Result<Self> {
        define(&namespace.client).await?;
        let sizes = Sizes::default();
        let mut watch = JoinSet::new();
        watch.spawn(record_sizes(targets(namespace), sizes.clone()));
        Ok(Self { namespace: namespace.clone(), sizes, _watch: watch })
    }

    /// Applies a target with all its objects but the HPA.
    ///
    /// # Errors
    /// When the API refuses one of the objects.
    pub async fn create(&self, target: &ScaleTarget) -> Result<()> {
        let create = PostParams::default();
        let pods: Api<Pod> = self.namespace.api();
        pods.create(&create, &serde_json::from_value(target.pod())?).await.context("its pod")?;
        let metrics: Api<Metric> = self.namespace.api();
        metrics.create(&create, &target.metric()).await.context("its Metric")?;
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        autoscalers.create(&create, &target.pod_autoscaler()?).await.context("its PodAutoscaler")?;
        self.create_alone(target).await
    }

    /// Applies the custom resource alone.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn create_alone(&self, target: &ScaleTarget) -> Result<()> {
        let object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": KIND,
            "metadata": {"name": target.name},
            "spec": {
                "replicas": target.size,
                "reportedReplicas": target.reported_replicas,
                "selectedApp": target.selected_app,
            },
        });
        targets(&self.namespace).create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Writes a size, as `kubectl scale` does.
    ///
    /// # Errors
    /// When the API refuses.
    pub async fn scale(&self, name: &str, size: i32) -> Result<()> {
        write_scale(&targets(&self.namespace), name, size).await
    }

    /// The sizes that a target has had.
    pub fn sizes(&self, name: &str) -> Vec<i32> {
        lock(&self.sizes).get(name).cloned().unwrap_or_default()
    }

    /// The targets that have had more than their initial size, with all their sizes.
    pub fn changed(&self) -> Vec<(String, Vec<i32>)> {
        let sizes = lock(&self.sizes);
        sizes.iter().filter(|(_, sizes)| sizes.len() > 1).map(|(n, s)| (n.clone(), s.clone())).collect()
    }
}

fn targets(namespace: &TestNamespace) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, KIND));
    Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource)
}

/// Records the sizes of all targets and writes their status.
async fn record_sizes(targets: Api<DynamicObject>, sizes: Sizes) {
    let mut objects =
        watcher(targets.clone(), watcher::Config::default()).default_backoff().applied_objects().boxed();
    while let Some(object) = objects.next().await {
        let Ok(object) = object else { continue };
        let number = |path: &str| object.data.pointer(path).and_then(Value::as_i64);
        let Some(size) = number("/spec/replicas").and_then(|size| i32::try_from(size).ok()) else { continue };
        {
            let mut sizes = lock(&sizes);
            let recorded = sizes.entry(object.name_any()).or_default();
            if recorded.last() != Some(&size) {
                recorded.push(size);
            }
        }
        let reported = number("/spec/reportedReplicas").unwrap_or(i64::from(size));
        if number("/status/replicas") != Some(reported) {
            let app = object.data.pointer("/spec/selectedApp").and_then(Value::as_str).unwrap_or_default();
            let status = json!({"status": {"replicas": reported, "selector": format!("app={app}")}});
            let patched = targets
                .patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(status))
                .await;
            if let Err(error) = patched {
                println!("{}: could not write status.replicas: {error}", object.name_any());
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
            "replicas": number, "selectedApp": {"type": "string"},
            "reportedReplicas": {"type": "integer", "minimum": 0, "nullable": true},
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
