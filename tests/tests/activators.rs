//! What becomes of held requests when the activators that hold them are replaced, and of callers when they are no longer
//! needed: `make test-system`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::Mode;
use autoscaler::contract::ADMIN_PORT;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use system_tests::installation::{self, begin};
use system_tests::load::{self, Load, until_activators_answer};
use system_tests::workload::{Workload, until_mode, until_replicas};
use tokio::time::sleep;

/// Until a workload that was applied asleep is reached through them.
const PROXIED: Duration = Duration::from_secs(60);
/// Requests that are held.
const HELD: u32 = 500;
/// How long the workload's pod takes to start: long enough for every activator to be told to stop meanwhile.
const START: Duration = Duration::from_secs(10);
/// Callers that keep their connections.
const KEPT: u32 = 50;
/// When they should have left the activators, after the switch.
const LEFT: Duration = Duration::from_secs(10);
/// How long it is looked whether they have.
const LOOKED: Duration = Duration::from_secs(10);
/// The share of their requests that may still come through an activator then.
const MOST_PROXIED: f64 = 0.01;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_rolling_restart_of_the_activators_loses_no_held_request() -> Result<()> {
    let namespace = begin("restart").await?;
    let client = namespace.client.clone();
    let workload = Workload { replicas: 0, start: START, target: "100".to_owned(), ..Workload::new("slow") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_activators_answer(&url, &namespace, PROXIED).await?;

    // Each of them is sent once: nobody is answered before the last is on its way.
    let held =
        Load::concurrency(&url, HELD, Duration::ZERO, Duration::from_secs(2)).start(&namespace).await?;
    until_replicas(&namespace, "slow", |n| n > 0, Duration::from_secs(10)).await?;
    installation::restart_part(&client, "activator").await?;
    let answers = held.finish().await?;
    load::all_ok(&answers)?;
    anyhow::ensure!(answers.len() >= HELD as usize, "{} requests were sent", answers.len());
    let slowest = answers.iter().map(|answer| answer.ms).fold(0.0, f64::max);
    println!("{} held requests answered, the last after {slowest:.0} ms", answers.len());
    installation::until_ready(&client, Duration::from_secs(150)).await?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn callers_that_keep_their_connections_reach_the_pods_ten_seconds_after_the_switch() -> Result<()> {
    let namespace = begin("switch").await?;
    let client = namespace.client.clone();
    let workload =
        Workload { replicas: 0, attached: true, target: "100".to_owned(), ..Workload::new("kept") };
    let workload = workload.annotated("target-burst-capacity", "0");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_activators_answer(&url, &namespace, PROXIED).await?;

    let work = Duration::from_millis(10);
    let load =
        Load { new_connections: false, ..Load::concurrency(&url, KEPT, work, Duration::from_secs(60)) };
    let load = load.start(&namespace).await?;
    until_mode(&namespace, "kept", Mode::Serve).await?;
    sleep(LEFT).await;
    let (from, before) = (now_ms(), proxied(&client, &namespace.name).await?);
    sleep(LOOKED).await;
    let (to, after) = (now_ms(), proxied(&client, &namespace.name).await?);
    let answers = load.finish().await?;
    load::all_ok(&answers)?;
    let sent = answers.iter().filter(|answer| (from..to).contains(&answer.sent_ms)).count();
    println!("{} of {} requests came through an activator in all", after, answers.len());
    println!("{} of {sent} did from {LEFT:?} after the switch on", after - before);
    ensure!(before > 0.0 && sent > 0, "there were none");
    ensure!(after - before <= MOST_PROXIED * sent as f64, "that is too many");
    namespace.delete().await
}

fn now_ms() -> f64 {
    runtime::clock::since_epoch().as_secs_f64() * 1000.0
}

/// Requests for the workloads of a namespace that activators have answered.
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
        let ours = metrics
            .lines()
            .filter(|line| line.starts_with("rouse_activator_requests_total{") && line.contains(&label));
        for line in ours {
            let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
            sum += value.with_context(|| line.to_owned())?;
        }
    }
    Ok(sum)
}
