//! Activators prefer pods on their own node: each one gets requests over a connection of its own,
//! one after the other, so that all pods are equally free.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::LEASED_PORTS;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};
use system_tests::cluster::installation::{begin_exclusive, component_selector, system_api};
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::cluster::placement::{ZONE, node_of, zones};
use system_tests::traffic::forwarded_port;
use system_tests::traffic::load::until_first_response;
use system_tests::wait;
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Sidecar, Workload};

const NAME: &str = "near";
const PODS: i32 = 4;
const REQUESTS: usize = 200;
/// Enough for all pods on a loaded machine.
const STARTED: Duration = Duration::from_secs(180);

#[tokio::test]
#[ignore = "needs a cluster of two nodes with Rouse: run make test-nodes"]
async fn idle_pods_on_the_node_of_an_activator_get_most_of_its_requests() -> Result<()> {
    let namespace = begin_exclusive(NAME).await?;
    let workload = Workload {
        sidecar: Sidecar::None,
        min_replicas: PODS,
        max_replicas: PODS,
        replicas: PODS,
        ..Workload::new(NAME)
    };
    let workload = workload.annotated("scale-to-zero", "false");
    workload.create(&namespace).await?;
    until_rolled_out(&namespace, NAME, STARTED).await?;
    until_first_response(&workload.url(&namespace).await?, &namespace, STARTED).await?;

    let zones = zones_of_pods(&namespace).await?;
    let nodes: BTreeMap<String, String> =
        pods_of(&namespace, NAME).await?.iter().map(|pod| (pod.name_any(), node_of(pod))).collect();
    let port = leased_port(&namespace).await?;
    let activators: Api<Pod> = system_api(&namespace.client);
    for activator in activators.list(&component_selector("activator")).await? {
        let (name, node) = (activator.name_any(), node_of(&activator));
        let zone = zones.get(&node).with_context(|| format!("{node} has no zone"))?;
        let log = activators.logs(&name, &LogParams::default()).await?;
        ensure!(log.contains(&format!("zone: Some(\"{zone}\")")), "{name} did not get its zone {zone}");

        let responses = responses_through(&activators, &name, port).await?;
        let is_near = |pod: &&String| nodes.get(*pod) == Some(&node);
        let (near, pods) = (responses.iter().filter(is_near).count(), nodes.keys().filter(is_near).count());
        ensure!(pods > 0 && pods < nodes.len(), "the pods are on {nodes:?}, {name} on {node}");
        let [without, expected] = shares(pods, nodes.len());
        let share = near as f64 / responses.len() as f64;
        println!(
            "{name} on {node}: {near} of {} requests to its {pods} near pods; {expected:.2} expected, {without:.2} at random",
            responses.len()
        );
        ensure!(
            share >= f64::midpoint(without, expected),
            "only {share:.2} of the requests stay on the node"
        );
    }
    namespace.delete().await
}

/// The share of requests that near pods get at random, and if they are preferred in each pair.
fn shares(near: usize, all: usize) -> [f64; 2] {
    let pairs = |pods: usize| pods as f64 * (pods as f64 - 1.0);
    [near as f64 / all as f64, 1.0 - pairs(all - near) / pairs(all)]
}

/// The zones of the nodes. Kubernetes copies them to the pods.
async fn zones_of_pods(namespace: &TestNamespace) -> Result<BTreeMap<String, String>> {
    let zones = zones(&namespace.client).await?;
    ensure!(zones.len() > 1, "the cluster has nodes with zones {zones:?}");
    for pod in pods_of(namespace, NAME).await? {
        let (zone, of_node) = (pod.labels().get(ZONE), zones.get(&node_of(&pod)));
        ensure!(zone == of_node, "{} has zone {zone:?}, its node {of_node:?}", pod.name_any());
    }
    Ok(zones)
}

/// The port of the workload at each activator.
async fn leased_port(namespace: &TestNamespace) -> Result<u16> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={NAME}"));
    wait::until("activators in the slices", STARTED, || async {
        let slices = namespace.api::<EndpointSlice>().list(&of_service).await?;
        let ports = slices.iter().flat_map(|slice| slice.ports.iter().flatten());
        Ok(ports.filter_map(|port| u16::try_from(port.port?).ok()).find(|port| LEASED_PORTS.contains(port)))
    })
    .await
}

/// The pods that responded to requests through this activator, which follow each other.
async fn responses_through(activators: &Api<Pod>, name: &str, port: u16) -> Result<Vec<String>> {
    let mut client = forwarded_port::http2(activators, name, port).await?;
    let mut pods = Vec::new();
    for _ in 0..REQUESTS {
        let request = Request::get(format!("http://{NAME}.example/")).body(Empty::new().boxed_unsync())?;
        let response = client.send_request(request).await?;
        ensure!(response.status() == StatusCode::OK, "{response:?}");
        let pod = response.headers().get("sample-app-pod").context("no pod")?.to_str()?.to_owned();
        response.into_body().collect().await?;
        pods.push(pod);
    }
    Ok(pods)
}
