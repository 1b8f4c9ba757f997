//! Held requests while the activators are replaced, kept connections after the route has changed
//! to the pods, and new connections after an activator was killed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::SksMode;
use autoscaler::contract::ADMIN_PORT;
use futures::future::{try_join, try_join_all};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use system_tests::cluster::installation::{self, begin_exclusive};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{
    self, LONGEST, Load, Response, RunningLoad, until_activators_respond, until_first_response,
};
use system_tests::wait;
use system_tests::workloads::workload::{Sidecar, Workload, until_mode, until_replicas};
use tokio::time::{Instant, sleep};

/// The stock grace period: reports pause while activators are replaced, and must not lead to zero.
const STOCK_GRACE: &str = "30s";
/// Time until activators respond for a new workload at zero.
const PROXIED: Duration = Duration::from_secs(60);
/// Number of held requests.
const HELD: u32 = 500;
/// Start time of the workload's pod: long enough for every activator to receive its SIGTERM
/// meanwhile.
const START: Duration = Duration::from_secs(10);
/// Calls of gRPC at a time, and the time for which each is open.
const STREAMS: u32 = 100;
const STREAM: Duration = Duration::from_secs(3);
/// Time for new activators to start, and for those of before to drain.
const REPLACED: Duration = Duration::from_secs(150);
/// Number of clients that keep their connections.
const KEPT: u32 = 50;
/// Time in which all connections must have moved to the pods.
const MOVED: Duration = Duration::from_secs(10);
/// Period over which proxied requests are counted after that.
const OBSERVED: Duration = Duration::from_secs(10);
/// New connections a second while an activator is killed.
const RATE: f64 = 50.0;
/// Time in which a killed activator must have left the slices, and kube-proxy have followed.
const LEFT: Duration = Duration::from_secs(5);
/// Maximum share of requests through an activator in that period.
const MAX_PROXIED: f64 = 0.01;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn rolling_restart_of_activators_loses_no_held_request() -> Result<()> {
    let namespace = begin_exclusive("restart").await?;
    let client = namespace.client.clone();
    installation::set_grace_period(&client, STOCK_GRACE).await?;
    let mut held = Vec::new();
    for (name, sidecar) in [("slow", Sidecar::Native), ("plain", Sidecar::None)] {
        let workload =
            Workload { sidecar, replicas: 0, start: START, target: "100".to_owned(), ..Workload::new(name) };
        workload.create(&namespace).await?;
        let url = workload.url(&namespace).await?;
        until_activators_respond(&url, &namespace, PROXIED).await?;
        held.push((name, url));
    }
    // Each client sends one request, because no response arrives before the last request was sent.
    let held = try_join_all(held.iter().map(async |(name, url)| {
        let load = Load::concurrency(url, HELD, Duration::ZERO, Duration::from_secs(2));
        anyhow::Ok((name, load.start(&namespace).await?))
    }))
    .await?;
    for (name, _) in &held {
        until_replicas(&namespace, name, |n| n > 0, Duration::from_secs(10)).await?;
    }
    installation::restart_component(&client, "activator").await?;
    for (name, load) in held {
        let responses = load.finish().await?;
        load::ensure_all_ok(&responses).context(*name)?;
        ensure!(responses.len() >= HELD as usize, "{name}: {} requests were sent", responses.len());
        let slowest = responses.iter().map(|response| response.ms).fold(0.0, f64::max);
        println!("{name}: {} held requests got responses, the last after {slowest:.0} ms", responses.len());
    }
    installation::until_ready(&client, REPLACED).await?;
    namespace.end().await
}

/// Calls of gRPC share one connection of their client, which the activator ends by GOAWAY.
#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn rolling_restart_of_activators_loses_no_running_or_held_grpc_call() -> Result<()> {
    let namespace = begin_exclusive("restart-grpc").await?;
    let client = namespace.client.clone();
    installation::set_grace_period(&client, STOCK_GRACE).await?;
    let (mut running, mut held) = (Vec::new(), Vec::new());
    for (kind, sidecar) in [("sidecar", Sidecar::Native), ("plain", Sidecar::None)] {
        let workload = |name: &str| Workload { sidecar, target: "200".to_owned(), ..Workload::new(name) };
        let proxied = workload(&format!("running-{kind}")).annotated("target-burst-capacity", "-1");
        proxied.create(&namespace).await?;
        let url = proxied.url(&namespace).await?;
        until_first_response(&url, &namespace, PROXIED).await?;
        running.push((proxied.name, grpc(Load::concurrency(&url, STREAMS, STREAM, LONGEST))));

        let at_zero = Workload { replicas: 0, start: START, ..workload(&format!("held-{kind}")) };
        at_zero.create(&namespace).await?;
        let url = at_zero.url(&namespace).await?;
        until_activators_respond(&url, &namespace, PROXIED).await?;
        let calls = Load::concurrency(&url, STREAMS, Duration::ZERO, Duration::from_secs(2));
        held.push((at_zero.name, grpc(calls)));
    }
    let (running, held) = try_join(start_all(&running, &namespace), start_all(&held, &namespace)).await?;
    replace_activators(&client).await?;
    for (name, load) in held {
        ensure_calls_ok(name, &load.finish().await?)?;
    }
    for (name, mut load) in running {
        ensure_calls_ok(name, &load.until_now().await?)?;
    }
    namespace.end().await
}

fn grpc(load: Load) -> Load {
    Load { grpc: true, new_connections: false, ..load }
}

async fn start_all<'a>(
    loads: &'a [(String, Load)],
    namespace: &TestNamespace,
) -> Result<Vec<(&'a str, RunningLoad)>> {
    try_join_all(loads.iter().map(async |(name, load)| Ok((name.as_str(), load.start(namespace).await?))))
        .await
}

fn ensure_calls_ok(name: &str, responses: &[Response]) -> Result<()> {
    load::ensure_all_ok(responses).context(name.to_owned())?;
    ensure!(responses.len() >= STREAMS as usize, "{name}: {} calls", responses.len());
    let slowest = responses.iter().map(|response| response.ms).fold(0.0, f64::max);
    println!("{name}: {} calls of gRPC, the longest of {slowest:.0} ms", responses.len());
    Ok(())
}

/// Replaces the activators, and waits until those of before have ended.
async fn replace_activators(client: &Client) -> Result<()> {
    let pods: Api<Pod> = installation::system_api(client);
    let selected = installation::component_selector("activator");
    let before: Vec<String> = pods.list(&selected).await?.iter().map(ResourceExt::name_any).collect();
    installation::restart_component(client, "activator").await?;
    installation::until_rolled_out(client, "activator", REPLACED).await?;
    wait::until("the activators of before to end", REPLACED, || async {
        let left = pods.list(&selected).await?;
        Ok((!left.iter().any(|pod| before.contains(&pod.name_any()))).then_some(()))
    })
    .await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn kept_connections_reach_pods_ten_seconds_after_route_change() -> Result<()> {
    let namespace = begin_exclusive("switch").await?;
    let client = namespace.client.clone();
    installation::set_grace_period(&client, STOCK_GRACE).await?;
    let workload =
        Workload { replicas: 0, attached: true, target: "100".to_owned(), ..Workload::new("kept") };
    let workload = workload.annotated("target-burst-capacity", "0");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_activators_respond(&url, &namespace, PROXIED).await?;

    let work = Duration::from_millis(10);
    let load = Load { new_connections: false, ..Load::concurrency(&url, KEPT, work, LONGEST) };
    let mut load = load.start(&namespace).await?;
    until_mode(&namespace, "kept", SksMode::Serve).await?;
    sleep(MOVED).await;
    let (from, before) = (now_ms(), proxied(&client, &namespace.name).await?);
    sleep(OBSERVED).await;
    let (to, after) = (now_ms(), proxied(&client, &namespace.name).await?);
    let responses = load.until_now().await?;
    drop(load);
    load::ensure_all_ok(&responses)?;
    let sent = responses.iter().filter(|response| (from..to).contains(&response.sent_ms)).count();
    println!("{} of {} requests came through an activator", after, responses.len());
    println!("{} of {sent} did later than {MOVED:?} after the route change", after - before);
    ensure!(before > 0.0 && sent > 0, "no request came through an activator, or none was sent");
    ensure!(after - before <= MAX_PROXIED * sent as f64, "too many requests still come through an activator");
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn killed_activator_refuses_connections_for_seconds_only() -> Result<()> {
    let namespace = begin_exclusive("killed").await?;
    let client = namespace.client.clone();
    let mut urls = Vec::new();
    for (name, sidecar) in [("proxied", Sidecar::Native), ("plain", Sidecar::None)] {
        let workload = Workload { sidecar, target: "100".to_owned(), ..Workload::new(name) };
        let workload = workload.annotated("target-burst-capacity", "-1").annotated("scale-to-zero", "false");
        workload.create(&namespace).await?;
        urls.push((name, workload.url(&namespace).await?));
    }
    for (name, url) in &urls {
        until_first_response(url, &namespace, PROXIED).await?;
        until_mode(&namespace, name, SksMode::Proxy).await?;
    }
    let killed = installation::ready_pods(&client, "activator").await?.pop().context("no activator")?;
    let pod: Pod = installation::system_api(&client).get(&killed).await?;
    let address = pod.status.and_then(|status| status.pod_ip).context("the activator has no address")?;
    for (name, _) in &urls {
        until_in_slices(&namespace, name, &address, true, PROXIED).await?;
    }
    let mut loads = Vec::new();
    for (name, url) in &urls {
        let mut load = Load::rate(url, RATE, LEFT * 3).start(&namespace).await?;
        let first = load.next().await.context("no request was sent")?;
        ensure!(first.status == 200, "{name}: {first:?}");
        loads.push((name, load));
    }
    let (killed_at, killed_ms) = (Instant::now(), now_ms());
    installation::kill(&client, &killed).await?;
    for (name, _) in &urls {
        until_in_slices(&namespace, name, &address, false, LEFT).await?;
    }
    println!("{killed} was killed: it left the slices after {} ms", killed_at.elapsed().as_millis());
    for (name, load) in loads {
        let responses = load.finish().await?;
        let failed: Vec<_> = responses.iter().filter(|response| response.status != 200).collect();
        let last = failed.iter().map(|response| response.sent_ms - killed_ms).fold(0.0, f64::max);
        println!(
            "{name}: {} of {} requests failed, the last {last:.0} ms after the kill",
            failed.len(),
            responses.len()
        );
        ensure!(
            last <= LEFT.as_secs_f64() * 1000.0,
            "requests fail long after the kill: {:?}",
            failed.last()
        );
    }
    installation::until_ready(&client, Duration::from_secs(60)).await?;
    namespace.end().await
}

/// Waits until the slices of a Service have this endpoint, or do not have it.
pub(super) async fn until_in_slices(
    namespace: &TestNamespace,
    service: &str,
    address: &str,
    wanted: bool,
    deadline: Duration,
) -> Result<()> {
    wait::until(&format!("{service}: endpoint {address} in the slices to be {wanted}"), deadline, || async {
        let listed = endpoints(namespace, service).await?.iter().any(|other| other == address);
        Ok((listed == wanted).then_some(()))
    })
    .await
}

/// Addresses of the endpoints in the slices of a Service.
pub(super) async fn endpoints(namespace: &TestNamespace, service: &str) -> Result<Vec<String>> {
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let slices = namespace.api::<EndpointSlice>().list(&of_service).await?;
    let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default());
    Ok(endpoints.flat_map(|endpoint| endpoint.addresses).collect())
}

fn now_ms() -> f64 {
    component_base::clock::since_epoch().as_secs_f64() * 1000.0
}

/// Number of requests that activators have forwarded for a namespace's workloads.
async fn proxied(client: &Client, namespace: &str) -> Result<f64> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), installation::NAMESPACE);
    let activators = pods.list(&ListParams::default().labels("app.kubernetes.io/name=activator")).await?;
    let mut sum = 0.0;
    for activator in activators {
        let name = activator.metadata.name.unwrap_or_default();
        let path =
            format!("/api/v1/namespaces/{}/pods/{name}:{ADMIN_PORT}/proxy/metrics", installation::NAMESPACE);
        let metrics = client.request_text(http::Request::get(path).body(Vec::new())?).await?;
        let label = format!("namespace=\"{namespace}\"");
        let lines = metrics
            .lines()
            .filter(|line| line.starts_with("rouse_activator_requests_total{") && line.contains(&label));
        for line in lines {
            let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
            sum += value.with_context(|| line.to_owned())?;
        }
    }
    Ok(sum)
}
