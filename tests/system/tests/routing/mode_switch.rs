//! A workload under load gives up its sidecars and gets them back, by the steps of
//! `docs/howto/without-a-sidecar.md`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::SksMode;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::cluster::network_policies;
use system_tests::traffic::load::{LONGEST, Load, RunningLoad, ensure_all_ok, until_first_response};
use system_tests::workloads::deadlines::{POD_START, ROLLOUT};
use system_tests::workloads::injection::has_sidecar;
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{SERVICE_PORT, Workload, until_mode};

const NAME: &str = "switched";
/// Requests a second, each on a new connection.
const RATE: f64 = 50.0;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn no_request_fails_when_a_live_workload_changes_its_sidecar_mode() -> Result<()> {
    let namespace = begin_shared(NAME).await?;
    // Straight to the pods while they have a sidecar, so that each change also changes the route.
    let workload = Workload { min_replicas: 2, replicas: 2, target: "50".to_owned(), ..Workload::new(NAME) }
        .annotated("target-burst-capacity", "0")
        .annotated("scale-to-zero", "false");
    workload.create(&namespace).await?;
    network_policies::admit_activators(&namespace, NAME, json!("web")).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    until_rolled_out(&namespace, NAME, ROLLOUT).await?;
    until_mode(&namespace, NAME, SksMode::Serve).await?;

    let mut load =
        Load { work: Duration::from_millis(20), ..Load::rate(&url, RATE, LONGEST) }.start(&namespace).await?;
    to_plain_pods(&namespace).await?;
    ensure!(!have_sidecars(&namespace).await?, "a pod still has a sidecar");
    all_ok(&mut load).await.context("to plain pods")?;
    to_sidecars(&namespace).await?;
    ensure!(have_sidecars(&namespace).await?, "a pod has no sidecar");
    all_ok(&mut load).await.context("back to sidecars")?;
    drop(load);
    namespace.end().await
}

async fn to_plain_pods(namespace: &TestNamespace) -> Result<()> {
    set_target_port(namespace, "web").await?;
    set_sidecar(namespace, "false").await?;
    until_mode(namespace, NAME, SksMode::Proxy).await?;
    let probe = json!({"httpGet": {"path": "/healthz", "port": "web"}});
    set_template(namespace, Value::Null, &probe).await
}

async fn to_sidecars(namespace: &TestNamespace) -> Result<()> {
    set_template(namespace, json!("true"), &Value::Null).await?;
    set_sidecar(namespace, "true").await?;
    until_mode(namespace, NAME, SksMode::Serve).await?;
    set_target_port(namespace, "queue-proxy").await
}

async fn set_target_port(namespace: &TestNamespace, port: &str) -> Result<()> {
    let ports = json!({"spec": {"ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": port}]}});
    namespace.api::<Service>().patch(NAME, &PatchParams::default(), &Patch::Merge(ports)).await?;
    Ok(())
}

async fn set_sidecar(namespace: &TestNamespace, value: &str) -> Result<()> {
    let annotation = json!({"metadata": {"annotations": {"autoscaling.rouse.dev/sidecar": value}}});
    let autoscalers = namespace.api::<HorizontalPodAutoscaler>();
    autoscalers.patch(NAME, &PatchParams::default(), &Patch::Merge(annotation)).await?;
    Ok(())
}

/// Sets the label of the pods and the app's readiness probe, and waits for the rollout.
async fn set_template(namespace: &TestNamespace, inject: Value, probe: &Value) -> Result<()> {
    let template = json!({
        "metadata": {"labels": {"autoscaling.rouse.dev/inject": inject}},
        "spec": {"containers": [{"name": "app", "readinessProbe": probe}]},
    });
    let patch = json!({"spec": {"template": template}});
    let deployments = namespace.api::<Deployment>();
    deployments.patch(NAME, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    until_rolled_out(namespace, NAME, ROLLOUT).await
}

/// Whether each pod has a queue-proxy; an error if only some have.
async fn have_sidecars(namespace: &TestNamespace) -> Result<bool> {
    let pods = pods_of(namespace, NAME).await?;
    let count = pods.iter().filter(|pod| has_sidecar(pod)).count();
    ensure!(count == 0 || count == pods.len(), "{count} of {} pods have a sidecar", pods.len());
    Ok(count > 0)
}

/// Checks all requests up to now.
async fn all_ok(load: &mut RunningLoad) -> Result<()> {
    let responses = load.until_now().await?;
    ensure_all_ok(&responses)?;
    println!("a live workload: {} requests, all with status 200", responses.len());
    Ok(())
}
