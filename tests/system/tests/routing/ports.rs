//! The app has a port of the sidecar, and a rollout under load gives the sidecar others, by the
//! steps of `docs/reference/pods.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::api::{PodAutoscaler, SksMode, condition, sidecar_ports};
use autoscaler::contract::METRIC_CONCURRENCY;
use autoscaler::contract::sidecar_ports::{SIDECAR_STATS_PORT, SidecarPorts};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::cluster::network_policies::admit_sidecar_ports;
use system_tests::traffic::load::{LONGEST, Load, ensure_all_ok, send_one_request, until_first_response};
use system_tests::traffic::metric::service_metric_milli;
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, ROLLOUT, TO_ZERO};
use system_tests::workloads::injection::port_annotations;
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Workload, state, until_mode, until_replicas};

/// Requests a second, each on a new connection.
const RATE: f64 = 50.0;
const CHOSEN: SidecarPorts = SidecarPorts { traffic: 18012, admin: 18022, stats: 19090 };

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn rollout_to_other_sidecar_ports_loses_no_request_behind_a_service_with_selector() -> Result<()> {
    changes_ports_under_load("ports-attached", true).await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn rollout_to_other_sidecar_ports_loses_no_request_behind_a_managed_service() -> Result<()> {
    changes_ports_under_load("ports-managed", false).await
}

async fn changes_ports_under_load(name: &str, attached: bool) -> Result<()> {
    let namespace = begin_shared(name).await?;
    admit_sidecar_ports(&namespace, CHOSEN).await?;
    // Straight to the pods while there are some: the metric is what adapters read of the sidecars.
    let workload = Workload {
        attached,
        min_replicas: 2,
        replicas: 2,
        target: "50".to_owned(),
        ..Workload::new(name).annotated("target-burst-capacity", "0")
    };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    until_rolled_out(&namespace, name, ROLLOUT).await?;
    until_mode(&namespace, name, SksMode::Serve).await?;

    let mut load = Load { work: Duration::from_millis(200), ..Load::rate(&url, RATE, LONGEST) }
        .start(&namespace)
        .await?;
    for ports in [CHOSEN, SidecarPorts::default(), CHOSEN] {
        roll_out(&namespace, name, ports).await?;
        let responses = load.until_now().await?;
        println!("{name}: {} requests until {ports:?}", responses.len());
        ensure_all_ok(&responses)?;
        until_counted(&namespace, name).await?;
    }
    drop(load);
    until_replicas(&namespace, name, |replicas| replicas == 0, TO_ZERO).await?;
    let response = send_one_request(&url, &namespace).await?;
    ensure!(response.status == 200, "{response:?}, {}", state(&namespace, name).await);
    namespace.end().await
}

/// Gives the sidecars these ports, and waits until only such pods are left.
async fn roll_out(namespace: &TestNamespace, name: &str, ports: SidecarPorts) -> Result<()> {
    let annotations = BTreeMap::from(port_annotations(ports));
    set_template(namespace, name, json!({"metadata": {"annotations": annotations}})).await?;
    until_rolled_out(namespace, name, ROLLOUT).await?;
    for pod in pods_of(namespace, name).await? {
        let of_pod = pod.spec.as_ref().and_then(sidecar_ports).context("a pod without a sidecar")?;
        ensure!(of_pod == ports, "a pod has {of_pod:?}");
    }
    Ok(())
}

async fn set_template(namespace: &TestNamespace, name: &str, template: Value) -> Result<()> {
    let patch = Patch::Strategic(json!({"spec": {"template": template}}));
    namespace.api::<Deployment>().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits for a value of the metric with requests, which only the sidecars report in mode Serve.
async fn until_counted(namespace: &TestNamespace, name: &str) -> Result<()> {
    wait::until("a metric above 0", POD_START, || async {
        let (client, metric) = (&namespace.client, METRIC_CONCURRENCY);
        let milli = service_metric_milli(client, &namespace.name, metric, name).await?;
        ensure!(milli > 0, "{metric} is {milli} thousandths");
        Ok(Some(()))
    })
    .await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn app_keeps_a_port_of_the_sidecar_when_the_sidecar_gets_another() -> Result<()> {
    let (name, namespace) = ("ports-taken", begin_shared("ports-taken").await?);
    let workload = Workload { max_replicas: 1, ..Workload::new(name) };
    admit_sidecar_ports(&namespace, SidecarPorts { stats: CHOSEN.stats, ..SidecarPorts::default() }).await?;
    workload.create(&namespace).await?;
    let ports = json!([{"name": "web", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}]);
    let app = json!({"name": "app", "args": ["serve", "--port=9090"], "ports": ports});
    let annotations = json!({"autoscaling.rouse.dev/app-port": "9090"});
    let taken = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [app]}});
    set_template(&namespace, name, taken).await?;
    let degraded = async || {
        let status = namespace.api::<PodAutoscaler>().get(name).await?.status.unwrap_or_default();
        Ok::<_, anyhow::Error>(condition(&status.conditions, "Degraded").map(|it| it.message.clone()))
    };
    let message = wait::until("the condition", POD_START, || async {
        let message = degraded().await?.context("no condition")?;
        Ok(message.contains("port 9090").then_some(message))
    });
    let message = message.await?;
    ensure!(message.contains(SIDECAR_STATS_PORT), "the annotation is not named: {message}");

    set_template(&namespace, name, json!({"metadata": {"annotations": {SIDECAR_STATS_PORT: "19090"}}}))
        .await?;
    until_rolled_out(&namespace, name, ROLLOUT).await?;
    until_first_response(&workload.url(&namespace).await?, &namespace, POD_START).await?;
    wait::until("the condition to end", POD_START, || async {
        let Some(message) = degraded().await? else { return Ok(Some(())) };
        bail!("{message}")
    })
    .await?;
    until_replicas(&namespace, name, |replicas| replicas == 0, TO_ZERO).await?;
    namespace.end().await
}
