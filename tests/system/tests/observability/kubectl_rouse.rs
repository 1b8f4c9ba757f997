//! `kubectl rouse` on a real cluster: from a bare Deployment and Service to a workload that sleeps
//! and wakes, and what `check` finds on the way.

mod page;
mod pause;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use cli::app;
use cli::args::Cli;
use cli::connection::Session;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery;
use serde::Deserialize;
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::wait;
use system_tests::workloads::workload::{Sidecar, Workload, replicas};

const NAME: &str = "plugin";

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn bare_deployment_sleeps_after_init_and_check_names_a_planted_fault() -> Result<()> {
    let namespace = begin_shared("plugin").await?;
    // Its pods have no sidecar, and its Service selects them.
    Workload { sidecar: Sidecar::None, attached: true, ..Workload::new(NAME) }
        .create_without_hpa(&namespace)
        .await?;
    apply(&namespace, &["init", "deploy/plugin", "--with-sidecar", "--step", "pods"]).await?;
    until_sidecars(&namespace).await?;
    apply(&namespace, &["init", "deploy/plugin", "--step", "traffic"]).await?;
    let sleeps = format!("{}/{NAME}", namespace.name);
    wait::until("check to find nothing", Duration::from_secs(60), || async {
        let report = json(&namespace, &["check", &sleeps]).await?;
        if report["findings"] == json!([]) { Ok(Some(())) } else { bail!("{report}") }
    })
    .await?;

    // A window without requests, and then the time in which nodes follow.
    wait::until("sleep to be allowed", Duration::from_secs(120), || async {
        json(&namespace, &["sleep", NAME]).await.map(Some)
    })
    .await?;
    ensure!(replicas(&namespace, NAME).await? == 0, "the size is not 0");
    let status = wait::until("the state to be AtZero", Duration::from_secs(20), || async {
        let status = json(&namespace, &["status"]).await?;
        Ok((status["workloads"][0]["state"] == "AtZero").then_some(status))
    })
    .await?;
    ensure!(status["workloads"][0]["name"] == NAME, "{status}");
    json(&namespace, &["wake", NAME]).await?;
    ensure!(replicas(&namespace, NAME).await? == 1, "the size is not 1");

    let services: Api<Service> = namespace.api();
    let ports = json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
    services.patch(NAME, &PatchParams::default(), &Patch::Merge(ports)).await?;
    let report = json(&namespace, &["check", &sleeps]).await?;
    let finding = &report["findings"][0];
    ensure!(finding["reason"] == "SidecarBypassed", "{report}");
    ensure!(finding["fix"].as_str().is_some_and(|fix| fix.contains("queue-proxy")), "{report}");
    namespace.end().await
}

/// The pods of the rollout are ready, and no other is left.
async fn until_sidecars(namespace: &TestNamespace) -> Result<()> {
    wait::until("all pods to have a sidecar", Duration::from_secs(90), || async {
        let pods = pods_of(namespace, NAME).await?;
        let has_sidecar = |pod: &k8s_openapi::api::core::v1::Pod| {
            // `init` lets the app start first.
            let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            containers.any(|container| container.name == "queue-proxy")
        };
        Ok((!pods.is_empty() && pods.iter().all(has_sidecar)).then_some(()))
    })
    .await
}

fn session(namespace: &TestNamespace) -> Session {
    Session {
        client: namespace.client.clone(),
        namespace: namespace.name.clone(),
        only_namespace: Some(namespace.name.clone()),
        system_namespace: "rouse-system".to_owned(),
    }
}

/// The output of a command.
async fn text(namespace: &TestNamespace, args: &[&str]) -> Result<String> {
    let cli = Cli::try_parse_from([&["kubectl-rouse"], args].concat())?;
    let mut out = Vec::new();
    app::execute(&cli.command, &session(namespace), cli.output, &mut out).await?;
    Ok(String::from_utf8(out)?)
}

async fn json(namespace: &TestNamespace, args: &[&str]) -> Result<Value> {
    let text = text(namespace, &[args, &["-o", "json"]].concat()).await?;
    serde_json::from_str(&text).context(text)
}

/// Applies the printed objects as `kubectl apply --server-side --force-conflicts` does.
async fn apply(namespace: &TestNamespace, args: &[&str]) -> Result<()> {
    let text = text(namespace, args).await?;
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let object = Value::deserialize(document)?;
        if object.is_null() {
            continue;
        }
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("an object without kind")?;
        let (resource, _) =
            discovery::pinned_kind(&namespace.client, &GroupVersionKind::try_from(&types)?).await?;
        let name = object.metadata.name.clone().context("an object without name")?;
        let api: Api<DynamicObject> =
            Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource);
        api.patch(&name, &PatchParams::apply("kubectl").force(), &Patch::Apply(&object)).await?;
    }
    Ok(())
}
