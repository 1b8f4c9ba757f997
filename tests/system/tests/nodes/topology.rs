//! Services with preferences for nodes and zones: clients stay in their zone, and load balancers
//! keep the nodes that they have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::SksMode;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use system_tests::cluster::cluster_tool::cluster_tool;
use system_tests::cluster::installation::{begin_exclusive, component_selector, system_api};
use system_tests::cluster::namespace::{CLIENT_POD, TestNamespace};
use system_tests::cluster::placement::{node_of, zones};
use system_tests::traffic::load::{Load, Response, ensure_all_ok, send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Workload, state, until_mode, until_replicas};
use tokio::process::Command;

const PODS: i32 = 6;
/// Enough for all pods on a loaded machine.
const STARTED: Duration = Duration::from_secs(180);
/// Enough for Kubernetes to compute hints, and for kube-proxy to apply them.
const ROUTED: Duration = Duration::from_secs(60);
/// Enough for a window of 6 s, a grace period of 3 s and the HPA's scale-down.
const TO_ZERO: Duration = Duration::from_secs(180);

#[tokio::test]
#[ignore = "needs a cluster of nodes in several zones with Rouse: run make test-nodes"]
async fn clients_that_prefer_their_zone_reach_its_pods_and_hints_are_complete_in_each_mode() -> Result<()> {
    for (name, attached) in [("zones-managed", false), ("zones-attached", true)] {
        let namespace = begin_exclusive(name).await?;
        let workload = Workload {
            attached,
            min_replicas: PODS,
            max_replicas: PODS,
            replicas: PODS,
            ..Workload::new(name)
        };
        let workload = workload.annotated("scale-to-zero", "false").annotated("target-burst-capacity", "0");
        workload.create(&namespace).await?;
        change_service(&namespace, name, json!({"trafficDistribution": "PreferClose"})).await?;
        until_rolled_out(&namespace, name, STARTED).await?;
        let url = workload.url(&namespace).await?;
        until_first_response(&url, &namespace, STARTED).await?;

        until_mode(&namespace, name, SksMode::Serve).await?;
        until_hints_are_those_of_zones(&namespace, name).await?;
        until_requests_stay_in_the_zone(&namespace, &url).await?;
        always_through_activators(&namespace, name).await?;
        until_mode(&namespace, name, SksMode::Proxy).await?;
        until_hints_are_those_of_zones(&namespace, name).await?;
        let load = Load::rate(&url, 50.0, Duration::from_secs(2));
        ensure_all_ok(&load.run(&namespace).await?).context("through activators")?;
        namespace.delete().await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster of nodes in several zones with Rouse: run make test-nodes"]
async fn load_balancer_keeps_the_nodes_of_activators_to_zero_and_back() -> Result<()> {
    let namespace = begin_exclusive("local").await?;
    let workload =
        Workload { attached: true, ..Workload::new("local") }.annotated("target-burst-capacity", "0");
    workload.create(&namespace).await?;
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    change_service(&namespace, "local", local).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, STARTED).await?;
    until_mode(&namespace, "local", SksMode::Proxy).await?;

    let checks = HealthChecks::of_activators(&namespace, "local").await?;
    wait::until("the nodes of activators to be healthy", ROUTED, || async {
        checks.ensure_ok().await?;
        Ok(Some(()))
    })
    .await?;
    let steps = async {
        until_replicas(&namespace, "local", |size| size == 0, TO_ZERO).await?;
        let response = send_one_request(&url, &namespace).await?;
        println!("a wake took {:.0} ms", response.ms);
        until_replicas(&namespace, "local", |size| size == 0, TO_ZERO).await?;
        anyhow::Ok(())
    };
    tokio::select! {
        done = steps => done?,
        failed = checks.until_failure() => return failed,
    }
    namespace.delete().await
}

/// The checks of a load balancer on the nodes with activators.
struct HealthChecks {
    urls: Vec<String>,
}

// === impl HealthChecks ===

impl HealthChecks {
    async fn of_activators(namespace: &TestNamespace, name: &str) -> Result<Self> {
        let service = namespace.api::<Service>().get(name).await?.spec.context("a Service without spec")?;
        let port = service.health_check_node_port.context("no healthCheckNodePort")?;
        let activators: Api<Pod> = system_api(&namespace.client);
        let activators = activators.list(&component_selector("activator")).await?;
        let nodes: BTreeSet<String> = activators.iter().map(node_of).collect();
        let mut urls = Vec::new();
        for node in nodes {
            let node = Api::<Node>::all(namespace.client.clone()).get(&node).await?;
            let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
            let internal = addresses.iter().find(|address| address.type_ == "InternalIP");
            urls.push(format!(
                "http://{}:{port}/healthz",
                internal.context("a node without address")?.address
            ));
        }
        ensure!(!urls.is_empty(), "there is no activator");
        Ok(Self { urls })
    }

    /// Fails with the first node that is not healthy.
    async fn ensure_ok(&self) -> Result<()> {
        for url in &self.urls {
            let curl =
                ["exec", "--", "curl", "--silent", "--max-time", "5", "--write-out", "%{http_code}", url];
            let output = Command::from(cluster_tool()?).args(curl).output().await?;
            let response = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(response.ends_with("200"), "{url}: {response}");
        }
        Ok(())
    }

    /// Completes with an error when a node is not healthy.
    async fn until_failure(&self) -> Result<()> {
        loop {
            self.ensure_ok().await?;
        }
    }
}

async fn change_service(namespace: &TestNamespace, name: &str, spec: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    namespace.api::<Service>().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn always_through_activators(namespace: &TestNamespace, name: &str) -> Result<()> {
    let annotation = json!({"autoscaling.rouse.dev/target-burst-capacity": "-1"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotation}}));
    namespace.api::<HorizontalPodAutoscaler>().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until each ready endpoint of the Service, of any writer, has its own zone as hint.
async fn until_hints_are_those_of_zones(namespace: &TestNamespace, name: &str) -> Result<()> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    wait::until("hints of all endpoints", ROUTED, || async {
        let slices = namespace.api::<EndpointSlice>().list(&of_service).await?;
        let endpoints: Vec<&Endpoint> = slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().flatten())
            .filter(|e| is_ready(e))
            .collect();
        let without: Vec<_> = endpoints.iter().filter(|endpoint| !has_hint_of_its_zone(endpoint)).collect();
        ensure!(without.is_empty(), "{without:?}; {}", state(namespace, name).await);
        Ok((!endpoints.is_empty()).then_some(()))
    })
    .await
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

fn has_hint_of_its_zone(endpoint: &Endpoint) -> bool {
    let zones = endpoint.hints.as_ref().and_then(|hints| hints.for_zones.as_ref());
    let names: Vec<&str> = zones.into_iter().flatten().map(|zone| zone.name.as_str()).collect();
    endpoint.zone.as_deref().is_some_and(|zone| names == [zone])
}

async fn until_requests_stay_in_the_zone(namespace: &TestNamespace, url: &str) -> Result<()> {
    let zones = zones(&namespace.client).await?;
    let pods = namespace.api::<Pod>().list(&ListParams::default()).await?;
    let zone_of: BTreeMap<String, &String> =
        pods.iter().filter_map(|pod| Some((pod.name_any(), zones.get(&node_of(pod))?))).collect();
    let own = zone_of.get(CLIENT_POD).context("the client has no zone")?;
    let is_near = |response: &&Response| zone_of.get(&response.pod) == Some(own);
    let near_pods = zone_of.values().filter(|zone| *zone == own).count() - 1;
    wait::until("requests to stay in the client's zone", ROUTED, || async {
        let responses = Load::rate(url, 50.0, Duration::from_secs(2)).run(namespace).await?;
        ensure_all_ok(&responses)?;
        let near = responses.iter().filter(is_near).count();
        println!(
            "{near} of {} requests stay in zone {own}, with {near_pods} of {PODS} pods",
            responses.len()
        );
        ensure!(near == responses.len(), "{near} of {} requests stay in zone {own}", responses.len());
        Ok(Some(()))
    })
    .await
}
