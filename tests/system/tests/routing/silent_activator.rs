//! An activator whose reports are dropped, while it serves requests: they live to their end, it
//! leaves the endpoints, and its workload goes to zero.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::stats::reporters::DRAIN;
use k8s_openapi::api::core::v1::Pod;
use system_tests::cluster::installation::{self, begin_exclusive};
use system_tests::cluster::packet_filter::PacketFilter;
use system_tests::traffic::load::{self, Load, until_first_response};
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Sidecar, Workload, until_replicas};
use tokio::time::{Instant, sleep};

use super::activators::until_in_slices;

/// Requests at a time, so that at least one of them is in the activator that is cut off.
const REQUESTS: u32 = 8;
/// Much longer than window and grace period of the tests, and shorter than the client's timeout.
const LASTS: Duration = Duration::from_secs(50);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn requests_through_activator_without_reports_live_and_workload_sleeps_later() -> Result<()> {
    let namespace = begin_exclusive("silent").await?;
    let client = namespace.client.clone();
    let workload = Workload { sidecar: Sidecar::None, target: "100".to_owned(), ..Workload::new("plain") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let silent = installation::ready_pods(&client, "activator").await?.pop().context("no activator")?;
    let pod: Pod = installation::system_api(&client).get(&silent).await?;
    let address = pod.status.and_then(|status| status.pod_ip).context("the activator has no address")?;
    until_in_slices(&namespace, "plain", &address, true, POD_START).await?;

    let requests = Load::concurrency(&url, REQUESTS, LASTS, Duration::from_secs(1));
    let running = requests.start(&namespace).await?;
    sleep(Duration::from_secs(2)).await;
    let cut_at = Instant::now();
    let cut = PacketFilter::add(
        "inet rouse_reports",
        "forward",
        &format!("ip saddr {address} tcp dport 8080 drop"),
    )?;
    let responses = running.finish().await?;
    load::ensure_all_ok(&responses)?;
    ensure!(responses.len() >= REQUESTS as usize, "{} requests were sent", responses.len());
    until_in_slices(&namespace, "plain", &address, false, DRAIN + Duration::from_secs(30)).await?;
    println!("{silent} left the slices {} s after the cut", cut_at.elapsed().as_secs());
    until_replicas(&namespace, "plain", |n| n == 0, DRAIN * 2 + TO_ZERO).await?;
    println!("plain was at zero {} s after the cut", cut_at.elapsed().as_secs());
    drop(cut);
    until_in_slices(&namespace, "plain", &address, true, Duration::from_secs(30)).await?;
    namespace.end().await
}
