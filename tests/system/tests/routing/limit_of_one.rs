//! Pods without a sidecar that serve one request at a time, behind two activators. The app itself
//! counts.

use std::time::Duration;

use anyhow::{Result, ensure};
use system_tests::cluster::installation::{begin_exclusive, ready_pods};
use system_tests::traffic::load::{self, Load};
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Sidecar, Workload};

const NAME: &str = "single";
const PODS: i32 = 20;
/// Three for each pod, so that a request always waits.
const CLIENTS: u32 = 60;
const WORK: Duration = Duration::from_millis(100);
const LOAD: Duration = Duration::from_secs(20);
/// Enough for all pods on a loaded machine.
const STARTED: Duration = Duration::from_secs(180);
/// Beginning and end of the load in which fewer requests wait.
const MARGIN_MS: f64 = 2_000.0;
/// A fifth of a request: half of the pods get their next request before, unless slots are not lent.
const USUALLY_IDLE_MS: f64 = 20.0;
/// A lost slot is idle until the end. A stall of the machine is shorter.
const LONGEST_IDLE_MS: f64 = 2_000.0;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn no_plain_pod_gets_two_requests_or_is_idle_while_one_waits() -> Result<()> {
    let namespace = begin_exclusive("limit-of-one").await?;
    let activators = ready_pods(&namespace.client, "activator").await?;
    ensure!(activators.len() == 2, "the activators are {activators:?}");
    let workload = Workload {
        sidecar: Sidecar::None,
        container_concurrency: 1,
        target: "1".to_owned(),
        min_replicas: PODS,
        max_replicas: PODS,
        replicas: PODS,
        ..Workload::new(NAME)
    };
    let workload = workload.annotated("scale-to-zero", "false");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_rolled_out(&namespace, NAME, STARTED).await?;
    load::until_first_response(&url, &namespace, STARTED).await?;

    let responses = Load::concurrency(&url, CLIENTS, WORK, LOAD).run(&namespace).await?;
    load::ensure_all_ok(&responses)?;
    let most = responses.iter().map(|response| response.concurrent).max();
    ensure!(most == Some(1), "a pod had {most:?} requests at a time");
    let begin = responses.iter().map(|response| response.sent_ms).fold(f64::INFINITY, f64::min);
    let end = begin + LOAD.as_secs_f64() * 1000.0;
    let loaded = begin + MARGIN_MS..end - MARGIN_MS;
    let idle: Vec<f64> = responses
        .iter()
        .filter(|response| loaded.contains(&(response.sent_ms + response.ms)))
        .filter_map(|response| response.idle_ms)
        .collect();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| load::quantile(&idle, share));
    println!(
        "{} requests; a pod was idle before one for {p50:.1} ms (p50), {p99:.1} ms (p99), {max:.1} ms",
        idle.len()
    );
    ensure!(p50 <= USUALLY_IDLE_MS, "pods were idle for {p50:.1} ms (p50) while requests waited");
    ensure!(max <= LONGEST_IDLE_MS, "a pod was idle for {max:.1} ms while requests waited");
    namespace.end().await
}
