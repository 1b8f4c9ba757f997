//! The pods as targets of Prometheus, with the labels that its discovery of Kubernetes gives them.
//!
//! Debian builds Prometheus without that discovery, so the tests write a file of targets, which
//! Prometheus reads again on each change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

/// File of the targets, in the folder of Prometheus.
pub const FILE: &str = "targets.json";
/// Prefix of the labels.
pub const META: &str = "__meta_kubernetes";
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes the targets in these namespaces until the returned value is dropped.
pub fn follow(client: Client, namespaces: Vec<String>, folder: PathBuf) -> JoinSet<()> {
    let mut task = JoinSet::new();
    task.spawn(async move {
        loop {
            if let Err(error) = write(&client, &namespaces, &folder).await {
                println!("targets of Prometheus: {error:#}");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    });
    task
}

async fn write(client: &Client, namespaces: &[String], folder: &Path) -> Result<()> {
    let mut found = Vec::new();
    for namespace in namespaces {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        found.extend(pods.list(&ListParams::default()).await?.items.iter().flat_map(targets));
    }
    replace(folder, FILE, found)
}

/// Writes a file of targets. It is renamed, so that Prometheus never reads half a file.
pub(super) fn replace(folder: &Path, file: &str, targets: Vec<Value>) -> Result<()> {
    let part = folder.join("targets.part");
    std::fs::write(&part, Value::from(targets).to_string())?;
    Ok(std::fs::rename(part, folder.join(file))?)
}

/// A target for each declared port, as Prometheus makes them.
fn targets(pod: &Pod) -> Vec<Value> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let ports =
        containers.flat_map(|container| container.ports.iter().flatten().map(move |p| (container, p)));
    ports.filter_map(|(container, port)| target(pod, container, port)).collect()
}

/// Pods that wait for their node have no address.
fn target(pod: &Pod, container: &Container, port: &ContainerPort) -> Option<Value> {
    let status = pod.status.as_ref()?;
    let ip = status.pod_ip.as_ref()?;
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    let mut labels: Map<String, Value> = [
        ("namespace", pod.namespace().unwrap_or_default()),
        ("pod_name", pod.name_any()),
        ("pod_phase", status.phase.clone().unwrap_or_default()),
        ("pod_container_name", container.name.clone()),
        ("pod_container_port_name", port.name.clone().unwrap_or_default()),
        ("pod_container_port_number", port.container_port.to_string()),
        ("pod_controller_kind", owner.map(|owner| owner.kind.clone()).unwrap_or_default()),
        ("pod_controller_name", owner.map(|owner| owner.name.clone()).unwrap_or_default()),
    ]
    .into_iter()
    .map(|(name, value)| (format!("{META}_{name}"), value.into()))
    .collect();
    labels.extend(pod.labels().iter().map(|(key, value)| (pod_label(key), value.clone().into())));
    Some(json!({"targets": [format!("{ip}:{}", port.container_port)], "labels": labels}))
}

/// The label of a target for a label of its pod.
pub fn pod_label(key: &str) -> String {
    let name: String = key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("{META}_pod_label_{name}")
}
