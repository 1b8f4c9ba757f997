//! The reports of an activator are dropped while it serves requests: they live to their end, longer
//! than it is due to report. It leaves the endpoints, other workloads go to zero, and its workload
//! does when the requests have ended.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::stats::reporters::DRAIN;
use k8s_openapi::api::core::v1::Pod;
use system_tests::cluster::installation::{self, begin_exclusive};
use system_tests::cluster::packet_filter::PacketFilter;
use system_tests::traffic::load::{self, Load, until_first_response};
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Sidecar, Workload, replicas, until_replicas};
use tokio::time::{Instant, sleep};

use super::activators::until_in_slices;

/// Requests of HTTP at a time, and calls of gRPC, so that at least one is in the activator that is
/// cut off.
const REQUESTS: u32 = 8;
/// Longer than the two drains for which the activator is due, and shorter than the timeout of the
/// connection to the client pod, which carries nothing meanwhile.
const LASTS: Duration = Duration::from_secs(285);
/// The timeouts of requests without a sidecar, longer than that.
const TIMEOUT: &str = "1h";

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn requests_through_activator_without_reports_live_and_workload_sleeps_later() -> Result<()> {
    let namespace = begin_exclusive("silent").await?;
    let client = namespace.client.clone();
    let plain = |name: &str| {
        let workload = Workload { sidecar: Sidecar::None, target: "100".to_owned(), ..Workload::new(name) };
        workload.annotated("timeout", TIMEOUT).annotated("response-start-timeout", TIMEOUT)
    };
    let workload = plain("plain");
    workload.create(&namespace).await?;
    plain("idle").create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let silent = installation::ready_pods(&client, "activator").await?.pop().context("no activator")?;
    let pod: Pod = installation::system_api(&client).get(&silent).await?;
    let address = pod.status.and_then(|status| status.pod_ip).context("the activator has no address")?;
    until_in_slices(&namespace, "plain", &address, true, POD_START).await?;

    let requests =
        Load { timeout: LASTS * 2, ..Load::concurrency(&url, REQUESTS, LASTS, Duration::from_secs(1)) };
    let calls = Load { grpc: true, ..requests.clone() };
    let running = [requests.start(&namespace).await?, calls.start(&namespace).await?];
    sleep(Duration::from_secs(2)).await;
    let cut_at = Instant::now();
    let cut = PacketFilter::add(
        "inet rouse_reports",
        "forward",
        &format!("ip saddr {address} tcp dport 8080 drop"),
    )?;
    until_in_slices(&namespace, "plain", &address, false, DRAIN + Duration::from_secs(30)).await?;
    println!("{silent} left the slices {} s after the cut", cut_at.elapsed().as_secs());
    until_replicas(&namespace, "idle", |n| n == 0, DRAIN * 2 + TO_ZERO).await?;
    println!("idle was at zero {} s after the cut", cut_at.elapsed().as_secs());
    ensure!(replicas(&namespace, "plain").await? == 1, "plain did not keep its size");
    for running in running {
        let responses = running.finish().await?;
        load::ensure_all_ok(&responses)?;
        ensure!(responses.len() >= REQUESTS as usize, "{} requests were sent", responses.len());
    }
    println!("the requests ended {} s after the cut", cut_at.elapsed().as_secs());
    until_replicas(&namespace, "plain", |n| n == 0, TO_ZERO).await?;
    println!("plain was at zero {} s after the cut", cut_at.elapsed().as_secs());
    drop(cut);
    until_in_slices(&namespace, "plain", &address, true, Duration::from_secs(30)).await?;
    namespace.end().await
}
