//! A kubelet that reports nothing for some seconds, as on an overloaded node: a request that wakes
//! a pod of its node is held until it reports again.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, condition};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::container_process::signal;
use system_tests::cluster::installation::begin_exclusive;
use system_tests::cluster::namespace::{CLIENT_POD, TestNamespace};
use system_tests::cluster::placement::{node_of, zones};
use system_tests::traffic::load::{Load, create_at_zero, ensure_all_ok};
use system_tests::wait;
use system_tests::workloads::workload::Workload;

const NAME: &str = "pinned";
/// Longer than `start-patience`, and shorter than Kubernetes takes to find a node lost.
const SILENCE: Duration = Duration::from_secs(15);
const STARTED: Duration = Duration::from_secs(60);

/// A kubelet that is stopped until this is dropped.
struct StoppedKubelet(u32);

#[tokio::test]
#[ignore = "needs a cluster of three nodes with Rouse: run make test-nodes"]
async fn held_request_outlasts_the_silence_of_a_kubelet() -> Result<()> {
    let namespace = begin_exclusive("silent-kubelet").await?;
    let client = node_of(&namespace.api::<Pod>().get(CLIENT_POD).await?);
    let mut nodes = zones(&namespace.client).await?.into_keys();
    let node = nodes.rfind(|node| *node != client).context("one node only")?;
    // No pod beside it, which would start on another node.
    let workload = Workload { max_replicas: 1, ..Workload::new(NAME) };
    let url = create_at_zero(&workload, &namespace, STARTED).await?;
    pin(&namespace, &node).await?;

    let kubelet = StoppedKubelet::stop(&node)?;
    let held = Load::one_request(&url).start(&namespace).await?;
    until_node_unresponsive(&namespace).await?;
    tokio::time::sleep(SILENCE).await;
    drop(kubelet);
    let responses = held.finish().await?;
    ensure_all_ok(&responses).context("the held request")?;
    let took = responses.first().map(|response| response.ms).unwrap_or_default();
    println!("the request was held for {took:.0} ms");
    ensure!(took > SILENCE.as_secs_f64() * 1000.0, "the kubelet was not silent");
    namespace.delete().await
}

async fn pin(namespace: &TestNamespace, node: &str) -> Result<()> {
    let selector = json!({"kubernetes.io/hostname": node});
    let patch = json!({"spec": {"template": {"spec": {"nodeSelector": selector}}}});
    let deployments: Api<Deployment> = namespace.api();
    deployments.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn until_node_unresponsive(namespace: &TestNamespace) -> Result<()> {
    let autoscalers: Api<PodAutoscaler> = namespace.api();
    wait::until("condition PodsCanStart of reason NodeUnresponsive", STARTED, || async {
        let status = autoscalers.get(NAME).await?.status.context("no status")?;
        let can_start = condition(&status.conditions, "PodsCanStart").context("no condition")?;
        ensure!(can_start.reason == "NodeUnresponsive", "{}: {}", can_start.reason, can_start.message);
        Ok(Some(()))
    })
    .await
}

// === impl StoppedKubelet ===

impl StoppedKubelet {
    fn stop(node: &str) -> Result<Self> {
        let kubelet = Self(kubelet_of(node)?);
        signal(kubelet.0, "STOP")?;
        Ok(kubelet)
    }
}

impl Drop for StoppedKubelet {
    fn drop(&mut self) {
        if let Err(error) = signal(self.0, "CONT") {
            eprintln!("the kubelet stays stopped: {error:#}");
        }
    }
}

/// The process of the node's kubelet, on the cluster of `CLUSTER_NAME`.
fn kubelet_of(node: &str) -> Result<u32> {
    let cluster = format!("/{}/", std::env::var("CLUSTER_NAME").context("CLUSTER_NAME is not set")?);
    let node = format!("--hostname-override={node}");
    let is_kubelet = |id: &u32| {
        let command = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let arguments: Vec<&str> = command.split('\0').collect();
        arguments.first() == Some(&"kubelet") && arguments.contains(&&*node) && command.contains(&cluster)
    };
    let mut ids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.find(is_kubelet).with_context(|| format!("no kubelet with {node} runs on this machine"))
}
