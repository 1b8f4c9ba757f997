//! The three objects that a user writes for a workload: a Deployment, a Service and an HPA.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use autoscaler::api::{PodAutoscaler, ServerlessService, SksMode};
use autoscaler::contract::{METRIC_CONCURRENCY, NO_WAKE};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::cluster::namespace::{SAMPLE_APP, TestNamespace};
use crate::cluster::network_policies;
use crate::cluster::scale::write_scale;
use crate::wait;

/// The port of every test Service.
pub const SERVICE_PORT: u16 = 80;
/// The path that readiness probes request; the sample app does not count these requests.
const HEALTH_PATH: &str = "/healthz";

/// How the pods of a workload get a queue-proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sidecar {
    /// As a native sidecar, which starts before the app, by an annotation.
    Native,
    /// As an ordinary container behind the app's, which is the default.
    AppFirst,
    /// They have none. They have no label of Rouse, and the Service leads to the app's own port.
    None,
}

/// A workload to apply.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Name of all three objects.
    pub name: String,
    /// The HPA's metric.
    pub metric: &'static str,
    /// Whether that metric is of type Object, on the Service, instead of External.
    pub custom_metrics: bool,
    /// The HPA's `averageValue`.
    pub target: String,
    /// The HPA's lower bound.
    pub min_replicas: i32,
    /// The HPA's upper bound.
    pub max_replicas: i32,
    /// Initial `spec.replicas` of the Deployment.
    pub replicas: i32,
    /// Whether the Service selects its pods itself (attached mode) or leaves that to Rouse (managed
    /// mode).
    pub attached: bool,
    /// How the pods get a queue-proxy.
    pub sidecar: Sidecar,
    /// Time before the app listens.
    pub start: Duration,
    /// Requests that a pod serves at a time; 0 means no limit.
    pub container_concurrency: u32,
    /// Requests that the app serves at a time, while others wait in the app; `None` means no limit.
    pub servers: Option<u32>,
    /// Further labels of the pods, which the Service selects as well if it is attached.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the HPA, without the prefix `autoscaling.rouse.dev/`. Those that pods with a
    /// sidecar may have instead are theirs.
    pub annotations: BTreeMap<String, String>,
}

// === impl Workload ===

impl Workload {
    /// A workload that may go to zero, with a short window.
    pub fn new(name: &str) -> Self {
        let annotations = [("scale-to-zero", "true"), ("window", "6s")];
        Self {
            name: name.to_owned(),
            metric: METRIC_CONCURRENCY,
            custom_metrics: false,
            target: "10".to_owned(),
            min_replicas: 1,
            max_replicas: 10,
            replicas: 1,
            attached: false,
            sidecar: Sidecar::Native,
            start: Duration::ZERO,
            container_concurrency: 0,
            servers: None,
            labels: BTreeMap::new(),
            annotations: annotations.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        }
    }

    /// Adds an annotation to the HPA.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Applies the objects.
    ///
    /// # Errors
    /// When the API refuses an object.
    pub async fn create(&self, namespace: &TestNamespace) -> Result<()> {
        self.create_without_hpa(namespace).await?;
        self.create_hpa(namespace).await
    }

    /// Applies the HPA alone.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn create_hpa(&self, namespace: &TestNamespace) -> Result<()> {
        let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
        autoscalers.create(&PostParams::default(), &serde_json::from_value(self.hpa())?).await?;
        Ok(())
    }

    /// Applies the Deployment and the Service alone.
    ///
    /// # Errors
    /// When the API refuses an object.
    pub async fn create_without_hpa(&self, namespace: &TestNamespace) -> Result<()> {
        self.create_deployment(namespace).await?;
        let services: Api<Service> = namespace.api();
        services.create(&PostParams::default(), &serde_json::from_value(self.service())?).await?;
        if self.sidecar == Sidecar::None {
            network_policies::admit_activators(namespace, &self.name, json!("web")).await?;
        }
        Ok(())
    }

    /// Applies the Deployment alone: no controller scales its pods, and no Service routes to them.
    ///
    /// # Errors
    /// When the API refuses it.
    pub async fn create_deployment(&self, namespace: &TestNamespace) -> Result<()> {
        let deployments: Api<Deployment> = namespace.api();
        deployments.create(&PostParams::default(), &serde_json::from_value(self.deployment())?).await?;
        Ok(())
    }

    /// The three objects as a List, without the size of the Deployment.
    ///
    /// # Errors
    /// When a field does not fit its type.
    pub fn manifests(&self) -> Result<Value> {
        let mut deployment: Deployment = serde_json::from_value(self.deployment())?;
        deployment.spec.replicas = None;
        let service: Service = serde_json::from_value(self.service())?;
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(self.hpa())?;
        Ok(json!({"apiVersion": "v1", "kind": "List", "items": [deployment, service, hpa]}))
    }

    /// The Service's ClusterIP as a URL; tests need no DNS.
    ///
    /// # Errors
    /// When the Service does not exist.
    pub async fn url(&self, namespace: &TestNamespace) -> Result<String> {
        let services: Api<Service> = namespace.api();
        let ip = services.get(&self.name).await?.spec.and_then(|spec| spec.cluster_ip).unwrap_or_default();
        Ok(format!("http://{ip}:{SERVICE_PORT}/"))
    }

    fn deployment(&self) -> Value {
        json!({
            "metadata": {"name": self.name},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": {
                    "metadata": {
                        "labels": self.pod_labels(),
                        "annotations": self.pod_annotations(),
                    },
                    "spec": {
                        "automountServiceAccountToken": false,
                        "containers": [{
                            "name": "app",
                            "image": SAMPLE_APP,
                            "imagePullPolicy": "IfNotPresent",
                            "args": self.arguments(),
                            "ports": [{"name": "web", "containerPort": 8080}],
                            "readinessProbe": self.readiness_probe(),
                        }],
                    },
                },
            },
        })
    }

    fn arguments(&self) -> Vec<String> {
        let delay = format!("--start-delay-ms={}", self.start.as_millis());
        let servers = self.servers.map(|servers| format!("--servers={servers}"));
        [Some("serve".to_owned()), Some(delay), servers].into_iter().flatten().collect()
    }

    fn pod_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selected_labels();
        if self.sidecar != Sidecar::None {
            labels.insert("autoscaling.rouse.dev/inject".to_owned(), "true".to_owned());
        }
        labels
    }

    fn selected_labels(&self) -> BTreeMap<String, String> {
        let app = ("app".to_owned(), self.name.clone());
        self.labels.clone().into_iter().chain([app]).collect()
    }

    fn pod_annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = match self.sidecar {
            Sidecar::None => return BTreeMap::new(),
            Sidecar::Native | Sidecar::AppFirst => self.container_concurrency(),
        };
        let no_wake = self.annotations.get("no-wake").cloned();
        annotations.extend(no_wake.map(|rules| (NO_WAKE.to_owned(), rules)));
        if self.sidecar == Sidecar::Native {
            annotations.insert("autoscaling.rouse.dev/app-first".to_owned(), "false".to_owned());
        }
        annotations
    }

    /// A sidecar checks the app itself.
    fn readiness_probe(&self) -> Value {
        match self.sidecar {
            Sidecar::None => json!({"httpGet": {"path": HEALTH_PATH, "port": "web"}}),
            _ => Value::Null,
        }
    }

    /// The annotation of the pods, or without a sidecar of the HPA.
    fn container_concurrency(&self) -> BTreeMap<String, String> {
        let limit = Some(self.container_concurrency).filter(|limit| *limit > 0);
        let annotation =
            |limit: u32| ("autoscaling.rouse.dev/container-concurrency".to_owned(), limit.to_string());
        limit.map(annotation).into_iter().collect()
    }

    fn service(&self) -> Value {
        let selector = self.attached.then(|| self.selected_labels());
        let target_port = if self.sidecar == Sidecar::None { "web" } else { "queue-proxy" };
        json!({
            "metadata": {"name": self.name},
            "spec": {
                "selector": selector,
                "ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": target_port}],
            },
        })
    }

    pub fn hpa_metrics(&self) -> Value {
        let target = json!({"type": "AverageValue", "averageValue": self.target});
        if self.custom_metrics {
            let service = json!({"apiVersion": "v1", "kind": "Service", "name": self.name});
            let object =
                json!({"metric": {"name": self.metric}, "describedObject": service, "target": target});
            return json!([{"type": "Object", "object": object}]);
        }
        let selector = json!({"matchLabels": {"service": self.name}});
        let external = json!({"metric": {"name": self.metric, "selector": selector}, "target": target});
        json!([{"type": "External", "external": external}])
    }

    fn hpa(&self) -> Value {
        let of_hpa = self.annotations.iter();
        let mut annotations: BTreeMap<String, String> =
            of_hpa.map(|(k, v)| (format!("autoscaling.rouse.dev/{k}"), v.clone())).collect();
        match self.sidecar {
            Sidecar::None => annotations.extend(self.container_concurrency()),
            Sidecar::Native | Sidecar::AppFirst => {
                annotations.remove(NO_WAKE);
            }
        }
        json!({
            "metadata": {"name": self.name, "annotations": annotations},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name},
                "minReplicas": self.min_replicas,
                "maxReplicas": self.max_replicas,
                "metrics": self.hpa_metrics(),
                "behavior": {
                    "scaleUp": {
                        "stabilizationWindowSeconds": 0, "tolerance": "0",
                        "policies": [
                            {"type": "Percent", "value": 99900, "periodSeconds": 15},
                            {"type": "Pods", "value": 1000, "periodSeconds": 15},
                        ],
                    },
                    "scaleDown": {
                        "stabilizationWindowSeconds": 0, "tolerance": "0",
                        "policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}],
                    },
                },
            },
        })
    }
}

/// `spec.replicas` of a Deployment.
///
/// # Errors
/// When it does not exist.
pub async fn replicas(namespace: &TestNamespace, name: &str) -> Result<i32> {
    let deployments: Api<Deployment> = namespace.api();
    Ok(deployments.get(name).await?.spec.replicas.unwrap_or(1))
}

/// Writes `spec.replicas` of a Deployment, as `kubectl scale` does.
///
/// # Errors
/// When the API refuses.
pub async fn scale(namespace: &TestNamespace, name: &str, replicas: i32) -> Result<()> {
    write_scale(&namespace.api::<Deployment>(), name, replicas).await
}

/// Waits until the Deployment's `spec.replicas` satisfies `wanted`.
///
/// # Errors
/// After the deadline.
pub async fn until_replicas(
    namespace: &TestNamespace,
    name: &str,
    wanted: impl Fn(i32) -> bool,
    deadline: Duration,
) -> Result<i32> {
    let wanted = &wanted;
    wait::until(&format!("spec.replicas of {name} to change"), deadline, || async move {
        let now = replicas(namespace, name).await?;
        if wanted(now) {
            Ok(Some(now))
        } else {
            anyhow::bail!("spec.replicas is {now}, {}", state(namespace, name).await)
        }
    })
    .await
}

/// Waits until requests of the Service take this route.
///
/// # Errors
/// After a minute.
pub async fn until_mode(namespace: &TestNamespace, name: &str, mode: SksMode) -> Result<()> {
    let services: Api<ServerlessService> = namespace.api();
    wait::until(&format!("{name} to be in mode {mode:?}"), Duration::from_secs(60), || async {
        let Some(service) = services.get_opt(name).await? else { return Ok(None) };
        let status = service.status.unwrap_or_default();
        let reachable = mode == SksMode::Serve || status.activators > 0;
        if status.mode == Some(mode) && reachable {
            Ok(Some(()))
        } else {
            anyhow::bail!(state(namespace, name).await)
        }
    })
    .await
}

/// The status of a workload's PodAutoscaler and ServerlessService, for the message of a failed
/// test.
pub async fn state(namespace: &TestNamespace, name: &str) -> String {
    let autoscalers: Api<PodAutoscaler> = namespace.api();
    let services: Api<ServerlessService> = namespace.api();
    let autoscaler = autoscalers.get(name).await.ok().and_then(|pa| pa.status);
    let service = services.get(name).await.ok().and_then(|sks| sks.status);
    format!(
        "PodAutoscaler status {}, ServerlessService status {}",
        serde_json::to_string(&autoscaler).unwrap_or_default(),
        serde_json::to_string(&service).unwrap_or_default()
    )
}
