//! A node stops without notice: failed requests of the clients of twenty workloads and of a plain
//! Service, and how long wakes take meanwhile.
//!
//! What surprises: some requests fail for half a minute after kube-proxy has removed the lost pod.
//! A new connection that reuses the port of an unanswered one gets the pod of the latter from the
//! connection table.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use system_tests::cluster::cluster_tool::cluster_tool;
use system_tests::cluster::installation::{
    begin_exclusive, component_selector, set_grace_period, system_api,
};
use system_tests::cluster::namespace::{CLIENT_POD, TestNamespace, pods_of};
use system_tests::cluster::placement::node_of;
use system_tests::timeline::now_ms;
use system_tests::traffic::load::{
    Load, Response, RunningLoad, create_at_zero, quantile, until_first_response,
};
use system_tests::wait;
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Sidecar, Workload, until_replicas};
use tokio::process::Command;
use tokio::time::Instant;

/// Workloads with a steady load, half of them behind activators all the time.
const STEADY: usize = 8;
/// Workloads that are woken one after the other.
const WAKING: usize = 12;
const PODS: i32 = 3;
/// Requests a second to each workload with a steady load: 200 in all, the plain Service included.
const RATE: f64 = 22.0;
const PLAIN: &str = "plain";
/// Enough for all pods on a loaded machine.
const STARTED: Duration = Duration::from_secs(240);
const BEFORE: Duration = Duration::from_secs(20);
/// Kubernetes takes 40 to 90 s to find the node, and then its pods, not ready.
const AFTER: Duration = Duration::from_secs(90);
/// Of a request of the steady load.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What a wake may take longer than before: the loss of an activator and of the pod's node.
const SLOWER_WAKE_MS: f64 = 2000.0;
/// Failed requests beyond the plain Service's, as kube-proxy selects pods at random.
const TOLERANCE: f64 = 1.3;

/// A load and the name of its workload.
struct SteadyLoad {
    name: String,
    load: RunningLoad,
}

struct Wake {
    name: String,
    response: Response,
}

#[tokio::test]
#[ignore = "needs a cluster of three nodes with Rouse: run make test-nodes"]
async fn loss_of_a_node_fails_only_requests_that_are_routed_to_it() -> Result<()> {
    let namespace = begin_exclusive("node-loss").await?;
    set_grace_period(&namespace.client, "1s").await?;
    let mut loads = start_steady_loads(&namespace).await?;
    let waking = create_workloads_at_zero(&namespace).await?;
    let before = wake_until(&waking, &namespace, Instant::now() + BEFORE).await?;
    for SteadyLoad { name, load } in &mut loads {
        let failed = failures(&load.until_now().await?).count();
        ensure!(failed == 0, "{failed} requests to {name} failed before the loss");
    }

    let lost = node_to_lose(&namespace).await?;
    let stopped_ms = now_ms();
    run_cluster_tool(&["node", "stop", &lost]).await?;
    let wakes = wake_until(&waking, &namespace, Instant::now() + AFTER).await;
    until_lost_pods_are_not_ready(&namespace, &loads, &lost).await?;
    let results = finish(loads).await;
    let (wakes, results) = (wakes?, results?);
    let mut faults = Vec::new();
    let plain = results.iter().find(|(name, _)| name == PLAIN).context("no load of the plain Service")?;
    let most = failures(&plain.1).count() as f64 * TOLERANCE;
    for (name, responses) in &results {
        let not_ready = not_ready_from(&namespace, name, &lost).await?.context("the lost pod is ready")?;
        faults.extend(report(name, responses, stopped_ms, not_ready, most).err());
    }
    faults.extend(compare_wakes(&before, &wakes).err());
    run_cluster_tool(&["node", "start", &lost]).await?;
    until_all_nodes_ready(&namespace).await?;
    ensure!(faults.is_empty(), "{faults:#?}");
    namespace.delete().await
}

/// The workloads with a steady load, and a plain Service with the same pods.
async fn start_steady_loads(namespace: &TestNamespace) -> Result<Vec<SteadyLoad>> {
    let steady = |number: usize| {
        let burst_capacity = if number.is_multiple_of(2) { "-1" } else { "0" };
        let name = format!("steady-{number}");
        Workload { min_replicas: PODS, max_replicas: PODS, replicas: PODS, ..Workload::new(&name) }
            .annotated("scale-to-zero", "false")
            .annotated("target-burst-capacity", burst_capacity)
    };
    let plain = Workload { attached: true, sidecar: Sidecar::None, replicas: PODS, ..Workload::new(PLAIN) };
    plain.create_without_hpa(namespace).await?;
    let mut workloads = vec![plain];
    for workload in (0..STEADY).map(steady) {
        workload.create(namespace).await?;
        workloads.push(workload);
    }
    for workload in &workloads {
        until_rolled_out(namespace, &workload.name, STARTED).await?;
        until_first_response(&workload.url(namespace).await?, namespace, STARTED).await?;
    }
    let mut loads = Vec::new();
    for Workload { name, .. } in workloads {
        let url = Workload::new(&name).url(namespace).await?;
        let load = Load { timeout: TIMEOUT, ..Load::rate(&url, RATE, STARTED + BEFORE + AFTER) };
        let load = load.start(namespace).await?;
        loads.push(SteadyLoad { name, load });
    }
    Ok(loads)
}

async fn create_workloads_at_zero(namespace: &TestNamespace) -> Result<Vec<(String, String)>> {
    let mut workloads = Vec::new();
    for number in 0..WAKING {
        let workload = Workload::new(&format!("waking-{number}"));
        let url = create_at_zero(&workload, namespace, STARTED).await?;
        workloads.push((workload.name, url));
    }
    Ok(workloads)
}

/// Wakes the workloads in turn, each as soon as it is at zero.
async fn wake_until(
    workloads: &[(String, String)],
    namespace: &TestNamespace,
    end: Instant,
) -> Result<Vec<Wake>> {
    let mut wakes = Vec::new();
    for (name, url) in workloads.iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        let at_zero = until_replicas(namespace, name, |size| size == 0, STARTED);
        if let Ok(size) = tokio::time::timeout_at(end, at_zero).await {
            size?;
            let responses = Load::one_request(url).run(namespace).await?;
            wakes.extend(responses.into_iter().map(|response| Wake { name: name.clone(), response }));
        }
    }
    Ok(wakes)
}

/// A node with an activator, but without the client pod and the control plane.
async fn node_to_lose(namespace: &TestNamespace) -> Result<String> {
    let client = node_of(&namespace.api::<Pod>().get(CLIENT_POD).await?);
    let activators: Api<Pod> = system_api(&namespace.client);
    let activators = activators.list(&component_selector("activator")).await?;
    let nodes = activators.iter().map(node_of);
    nodes.into_iter().find(|node| *node != client && node != "node1").context("no node to lose")
}

/// All results up to now.
async fn finish(loads: Vec<SteadyLoad>) -> Result<Vec<(String, Vec<Response>)>> {
    let mut all = Vec::new();
    for SteadyLoad { name, mut load } in loads {
        all.push((name, load.until_now().await?));
    }
    Ok(all)
}

/// Waits until Kubernetes has found the pods of the lost node not ready, one after the other.
async fn until_lost_pods_are_not_ready(
    namespace: &TestNamespace,
    loads: &[SteadyLoad],
    lost: &str,
) -> Result<()> {
    for SteadyLoad { name, .. } in loads {
        wait::until(&format!("the lost pod of {name} not to be ready"), STARTED, || async {
            Ok(not_ready_from(namespace, name, lost).await?.map(|_| ()))
        })
        .await?;
    }
    Ok(())
}

/// When the workload's pod on the node was found not ready, in Unix milliseconds.
async fn not_ready_from(namespace: &TestNamespace, name: &str, node: &str) -> Result<Option<f64>> {
    let pods = pods_of(namespace, name).await?;
    let pod = pods.iter().find(|pod| node_of(pod) == node);
    let status = pod.with_context(|| format!("no pod of {name} is on {node}"))?.status.as_ref();
    let ready = status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .find(|condition| condition.type_ == "Ready" && condition.status == "False");
    let since = ready.and_then(|condition| condition.last_transition_time.as_ref());
    Ok(since.map(|since| since.0.as_millisecond() as f64))
}

fn failures(responses: &[Response]) -> impl Iterator<Item = &Response> {
    responses.iter().filter(|response| response.status != 200)
}

/// Prints the failed requests of a load. They are at most as many as of a plain Service.
fn report(name: &str, responses: &[Response], stopped_ms: f64, not_ready_ms: f64, most: f64) -> Result<()> {
    let last = failures(responses).map(|response| response.sent_ms - stopped_ms).fold(0.0, f64::max);
    let failed = failures(responses).count();
    println!(
        "{name}: {failed} of {} requests failed, the last {:.1} s after the loss; pod not ready after {:.1} s",
        responses.len(),
        last / 1000.0,
        (not_ready_ms - stopped_ms) / 1000.0,
    );
    ensure!(failed as f64 <= most, "{name}: {failed} failed, the last was {:?}", failures(responses).last());
    Ok(())
}

fn compare_wakes(before: &[Wake], after: &[Wake]) -> Result<()> {
    let times = |wakes: &[Wake]| wakes.iter().map(|wake| wake.response.ms).collect::<Vec<_>>();
    let normal = quantile(&times(before), 0.5);
    let slowest = times(after).into_iter().fold(0.0, f64::max);
    println!(
        "{} wakes before took {normal:.0} ms (p50); {} after {:.0} ms (p50), {slowest:.0} ms (longest)",
        before.len(),
        after.len(),
        quantile(&times(after), 0.5),
    );
    for Wake { name, response } in after {
        if response.status != 200 || response.ms > normal + SLOWER_WAKE_MS {
            println!("{name}: {response:?}");
        }
    }
    let failed = after.iter().filter(|wake| wake.response.status != 200).count();
    ensure!(failed == 0, "{failed} wakes failed");
    ensure!(slowest <= normal + SLOWER_WAKE_MS, "a wake took {slowest:.0} ms");
    Ok(())
}

async fn until_all_nodes_ready(namespace: &TestNamespace) -> Result<()> {
    let nodes: Api<Node> = Api::all(namespace.client.clone());
    wait::until("all nodes to be ready", STARTED, || async {
        let nodes = nodes.list(&ListParams::default()).await?;
        let ready = |node: &Node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        let waiting = nodes.iter().filter(|node| !ready(node)).map(ResourceExt::name_any);
        let waiting: Vec<String> = waiting.collect();
        ensure!(waiting.is_empty(), "{waiting:?} not ready");
        Ok(Some(()))
    })
    .await
}

async fn run_cluster_tool(arguments: &[&str]) -> Result<()> {
    let status = Command::from(cluster_tool()?).args(arguments).status().await?;
    ensure!(status.success(), "cluster {arguments:?}: {status}");
    Ok(())
}
