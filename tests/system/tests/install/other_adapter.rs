//! Clusters on which other adapters own the metrics APIs: Rouse takes no API, and works.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::PodAutoscaler;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::workload::{Sidecar, Workload, until_replicas};

use crate::installed::{
    AT_ZERO, INSTALLED, ROLLOUT, api_service_text, begin, ensure_scales_up, ensure_serves_without_rouse,
    start_load, until_nothing_is_left,
};

/// The versions of both metrics APIs.
pub(crate) const METRICS_APIS: [(&str, &str); 3] = [
    ("external.metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
];
pub(crate) const EXTERNAL: [(&str, &str); 1] = [("external.metrics.k8s.io", "v1beta1")];
/// Enough for the first check of an APIService.
const CHECKED: Duration = Duration::from_secs(30);

/// The APIServices of another adapter, which does not run.
pub(crate) struct OtherAdapter {
    client: Client,
    /// Name and content of each, as the API server sent them.
    before: Vec<(String, String)>,
}

// === impl OtherAdapter ===

impl OtherAdapter {
    /// Creates the APIServices of these APIs and waits until Kubernetes has written their status.
    pub(crate) async fn create(client: &Client, apis: &[(&str, &str)]) -> Result<Self> {
        let services: Api<APIService> = Api::all(client.clone());
        let mut before = Vec::new();
        for (group, version) in apis {
            let name = format!("{version}.{group}");
            let object = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "keda-operator"}},
                "spec": {
                    "group": group,
                    "version": version,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": true,
                    "service": {"namespace": "keda", "name": "keda-operator-metrics-apiserver", "port": 443},
                },
            }))?;
            services.create(&PostParams::default(), &object).await?;
            wait::until(&format!("the status of {name}"), CHECKED, || async {
                Ok(services.get(&name).await?.status.and_then(|status| status.conditions).map(drop))
            })
            .await?;
            before.push((name.clone(), api_service_text(client, &name).await?));
        }
        Ok(Self { client: client.clone(), before })
    }

    /// Checks that each is the same, byte for byte.
    pub(crate) async fn ensure_unchanged(&self) -> Result<()> {
        for (name, before) in &self.before {
            let after = api_service_text(&self.client, name).await?;
            ensure!(after == *before, "APIService {name} was\n{before}\nand is\n{after}");
        }
        Ok(())
    }

    /// Deletes them: while an API has no server, Kubernetes deletes no namespace.
    pub(crate) async fn delete(self) -> Result<()> {
        let services: Api<APIService> = Api::all(self.client);
        for (name, _) in &self.before {
            services.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }
}

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn helm_leaves_apis_of_other_adapters_and_workload_wakes_scales_and_sleeps() -> Result<()> {
    let (client, guard) = begin().await?;
    let other = OtherAdapter::create(&client, &METRICS_APIS).await?;
    let helm = Helm::from_environment()?;
    let notes = helm.install(&["--set-string", "config.scale-to-zero-grace-period=3s"]).await?;
    ensure!(
        notes.contains("Metrics API: none") && notes.contains("keda/keda-operator-metrics-apiserver"),
        "{notes}"
    );
    installation::until_available(&client, INSTALLED).await?;
    other.ensure_unchanged().await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-other").await?.with_guard(guard);

    let url = create_direct(&namespace).await?;
    ensure_wakes_scales_and_sleeps(&url, &namespace).await?;
    other.ensure_unchanged().await?;
    let mut load = start_load(&url, &namespace).await?;
    println!("{}", helm.uninstall().await?);
    ensure_serves_without_rouse(&namespace, DIRECT, &mut load).await?;
    other.ensure_unchanged().await.context("after helm uninstall")?;
    other.delete().await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// Name of a workload that Rouse alone scales.
pub(crate) const DIRECT: &str = "direct";

/// Creates a workload without an HPA.
pub(crate) async fn create_direct(namespace: &TestNamespace) -> Result<String> {
    let workload = Workload { sidecar: Sidecar::None, ..Workload::new(DIRECT) };
    workload.create_without_hpa(namespace).await?;
    let autoscaler = serde_json::from_value(json!({
        "apiVersion": "autoscaling.rouse.dev/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {
            "name": DIRECT,
            "annotations": {"autoscaling.rouse.dev/window": "6s"},
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": DIRECT},
            "scaler": "Direct", "service": DIRECT, "target": "5", "maxReplicas": 5, "scaleToZero": true,
        },
    }))?;
    namespace.api::<PodAutoscaler>().create(&PostParams::default(), &autoscaler).await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, ROLLOUT).await?;
    Ok(url)
}

/// The life of the workload: to zero, a wake, up under load, to zero.
pub(crate) async fn ensure_wakes_scales_and_sleeps(url: &str, namespace: &TestNamespace) -> Result<()> {
    until_replicas(namespace, DIRECT, |size| size == 0, AT_ZERO).await?;
    let response = send_one_request(url, namespace).await?;
    println!("a wake took {:.0} ms", response.ms);
    ensure_scales_up(namespace, DIRECT, url, 2, Duration::from_secs(30)).await?;
    until_replicas(namespace, DIRECT, |size| size == 0, AT_ZERO).await?;
    Ok(())
}
