//! What a pod without credentials can do to a pod of another workload, where no NetworkPolicy keeps
//! it away: the client pod sends requests straight to the victim's address.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::{
    METRIC_CONCURRENCY, PROBE_ACTIVATOR, PROXIED_HEADER, QUEUE_PROXY_ADMIN_PORT, QUEUE_PROXY_PORT,
    START_DRAIN_PATH, WAIT_FOR_DRAIN_PATH,
};
use k8s_openapi::api::core::v1::Pod;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{TestNamespace, is_ready, pods_of};
use system_tests::cluster::network_policies;
use system_tests::traffic::load::{LONGEST, Load, Response, ensure_all_ok, until_first_response};
use system_tests::traffic::metric::service_metric_milli;
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::Workload;

/// Requests that the client keeps in flight at the victim.
const CLIENTS: u32 = 20;
/// Longer than the window, and than the adapter needs to report it on a loaded machine.
const COUNTED: Duration = Duration::from_secs(40);
const OTHER_UID: &str = "5e1b7c0a-1d2f-4c3b-8a97-0b2c7d5e8f43";

/// A workload with one pod that serves requests, and the pod's address.
async fn victim(name: &str, namespace: &TestNamespace) -> Result<String> {
    network_policies::open(namespace).await?;
    let workload = Workload { max_replicas: 1, ..Workload::new(name) }.annotated("scale-to-zero", "false");
    workload.create(namespace).await?;
    until_first_response(&workload.url(namespace).await?, namespace, POD_START).await?;
    wait::until("the victim to be ready", POD_START, || async {
        let pods = pods_of(namespace, name).await?;
        let ready = pods.iter().find(|pod| is_ready(pod));
        Ok(ready.and_then(|pod| pod.status.as_ref()?.pod_ip.clone()))
    })
    .await
}

/// The result of a GET on the victim's admin port.
async fn get_admin(path: &str, address: &str, namespace: &TestNamespace) -> Result<Response> {
    let url = format!("http://{address}:{QUEUE_PROXY_ADMIN_PORT}{path}");
    let responses = Load::one_request(&url).run(namespace).await?;
    responses.into_iter().next().context("the client pod sent nothing")
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn pod_stays_ready_when_another_pod_waits_for_its_drain() -> Result<()> {
    let namespace = begin_shared("foreign-drain").await?;
    let address = victim("victim", &namespace).await?;
    let waited = get_admin(WAIT_FOR_DRAIN_PATH, &address, &namespace).await?;
    ensure!(waited.status == 200, "{waited:?}");
    let started = get_admin(START_DRAIN_PATH, &address, &namespace).await?;
    ensure!(started.status == 404, "{started:?}");
    let ready = get_admin("/ready", &address, &namespace).await?;
    ensure!(ready.status == 200, "the sidecar is not ready after requests of another pod: {ready:?}");
    let pods: Vec<Pod> = pods_of(&namespace, "victim").await?;
    ensure!(pods.iter().all(is_ready) && pods.len() == 1, "the victim is not Ready: {pods:?}");
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn metric_counts_requests_with_a_forged_proxied_header() -> Result<()> {
    let namespace = begin_shared("forged-header").await?;
    let address = victim("victim", &namespace).await?;
    let url = format!("http://{address}:{QUEUE_PROXY_PORT}/");
    let forged = |value: &str| Some(format!("{PROXIED_HEADER}:{value}"));

    let other = Load { header: forged(OTHER_UID), ..Load::one_request(&url) };
    let refused = other.run(&namespace).await?;
    ensure!(refused.iter().all(|response| response.status == 421), "{refused:?}");

    let load = Load::concurrency(&url, CLIENTS, Duration::from_millis(500), LONGEST);
    let mut running = Load { header: forged(PROBE_ACTIVATOR), ..load }.start(&namespace).await?;
    let counted = wait::until("the metric to count the forged requests", COUNTED, || async {
        let client = &namespace.client;
        let milli = service_metric_milli(client, &namespace.name, METRIC_CONCURRENCY, "victim").await?;
        ensure!(milli >= i64::from(CLIENTS) * 900, "the metric is {milli} thousandths");
        Ok(Some(milli))
    });
    let milli = counted.await?;
    println!("{CLIENTS} concurrent requests with a forged header: the metric is {milli} thousandths");
    ensure_all_ok(&running.until_now().await?)?;
    drop(running);
    namespace.end().await
}
