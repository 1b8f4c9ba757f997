//! The reports of an activator are dropped while it serves requests, websockets and sessions: those
//! live to their end, longer than it is due to report. It leaves the endpoints, other workloads go
//! to zero, and the workloads of the sessions do when these have ended.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::stats::reporters::DRAIN;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use system_tests::cluster::installation::{self, begin_exclusive};
use system_tests::cluster::packet_filter::{PacketFilter, in_cluster};
use system_tests::traffic::load::{self, Load, until_first_response};
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{SERVICE_PORT, Sidecar, Workload, replicas, until_replicas};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::activators::until_in_slices;
use crate::zero::redis::{self, Redis};

/// Sessions of each protocol, so that at least one is in the activator that is cut off.
const SESSIONS: u32 = 8;
/// Longer than the two drains for which the activator is due, and shorter than the timeout of the
/// connection to the client pod, which carries nothing meanwhile.
const LASTS: Duration = Duration::from_secs(285);
/// The timeouts of requests without a sidecar, longer than that.
const TIMEOUT: &str = "1h";
/// A websocket that is silent for as long as it lasts, and then gets its message back. The app does
/// not check its handshake.
const WEBSOCKET: &str = r"
    printf 'GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n' >&3
    while read -r line <&3 && [ ${#line} -gt 1 ]; do head=$head$line; done
    sleep $LASTS
    echo hello >&3
    read -r line <&3
    echo $head $line";
const WEBSOCKET_RESPONSE: [&str; 2] = ["HTTP/1.1 101 ", " hello\n"];
/// A client of a queue that stays empty.
const QUEUE: &str = r"
    printf 'BLPOP queue %s\r\n' $LASTS >&3
    read -r line <&3
    echo $line";
const QUEUE_RESPONSE: [&str; 2] = ["*-1", "\n"];

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn sessions_through_activator_without_reports_live_and_workloads_sleep_later() -> Result<()> {
    let namespace = begin_exclusive("silent").await?;
    let client = namespace.client.clone();
    let plain = |name: &str| {
        let workload = Workload { sidecar: Sidecar::None, target: "100".to_owned(), ..Workload::new(name) };
        workload.annotated("timeout", TIMEOUT).annotated("response-start-timeout", TIMEOUT)
    };
    let workload = plain("plain");
    workload.create(&namespace).await?;
    let redis = Redis::new("sessions", false, false)?;
    redis.create(&namespace).await?;
    let redis_ip = redis.cluster_ip(&namespace).await?;
    redis.set_greeting(&namespace, &redis_ip).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let silent = addresses(&client, "activator").await?.pop().context("no activator")?;
    for service in ["plain", "sessions"] {
        until_in_slices(&namespace, service, &silent, true, POD_START).await?;
    }

    // Last, so that it is not at zero before the cut.
    plain("idle").create(&namespace).await?;
    let requests =
        Load { timeout: LASTS * 2, ..Load::concurrency(&url, SESSIONS, LASTS, Duration::from_secs(1)) };
    let calls = Load { grpc: true, ..requests.clone() };
    let running = [requests.start(&namespace).await?, calls.start(&namespace).await?];
    let ip = url.trim_start_matches("http://").split(':').next().context("no address")?;
    let websockets = sessions(WEBSOCKET, ip, SERVICE_PORT)?;
    let queues = sessions(QUEUE, &redis_ip, redis::PORT)?;
    sleep(Duration::from_secs(2)).await;
    let cut_at = Instant::now();
    let mut receivers = addresses(&client, "metrics-adapter").await?;
    receivers.extend(addresses(&client, "zero-scaler").await?);
    let rule = format!("ip saddr {silent} ip daddr {{ {} }} tcp dport 8080 drop", receivers.join(", "));
    let cut = PacketFilter::add("inet rouse_reports", "forward", &rule)?;
    until_in_slices(&namespace, "plain", &silent, false, DRAIN + Duration::from_secs(30)).await?;
    println!("{silent} left the slices {} s after the cut", cut_at.elapsed().as_secs());
    // What it has published stays valid.
    let rule = format!("ip saddr {silent} tcp dport 6443 drop");
    let api_server = PacketFilter::add("inet rouse_api_server", "input", &rule)?;
    until_replicas(&namespace, "idle", |n| n == 0, DRAIN * 2 + TO_ZERO).await?;
    println!("idle was at zero {} s after the cut", cut_at.elapsed().as_secs());
    ensure!(replicas(&namespace, "plain").await? == 1, "plain did not keep its size");
    for running in running {
        let responses = running.finish().await?;
        load::ensure_all_ok(&responses)?;
        ensure!(responses.len() >= SESSIONS as usize, "{} requests were sent", responses.len());
    }
    ensure_ended(websockets, WEBSOCKET_RESPONSE).await.context("websockets")?;
    ensure_ended(queues, QUEUE_RESPONSE).await.context("sessions of Redis")?;
    println!("the sessions ended {} s after the cut", cut_at.elapsed().as_secs());
    drop(api_server);
    until_replicas(&namespace, "plain", |n| n == 0, TO_ZERO).await?;
    redis.until_at_zero(&namespace).await?;
    println!("their workloads were at zero {} s after the cut", cut_at.elapsed().as_secs());
    drop(cut);
    until_in_slices(&namespace, "plain", &silent, true, Duration::from_secs(30)).await?;
    redis.delete(&namespace).await?;
    namespace.end().await
}

/// The addresses of the ready pods of a part.
async fn addresses(client: &Client, component: &str) -> Result<Vec<String>> {
    let pods = installation::ready_pods(client, component).await?;
    try_join_all(pods.iter().map(async |name| {
        let pod: Pod = installation::system_api(client).get(name).await?;
        pod.status.and_then(|status| status.pod_ip).with_context(|| format!("{name} has no address"))
    }))
    .await
}

/// Starts sessions on the node, which run a script of bash with the connection as descriptor 3.
fn sessions(script: &str, address: &str, port: u16) -> Result<Vec<Child>> {
    let script = format!("exec 3<>/dev/tcp/{address}/{port}; LASTS={}; {script}", LASTS.as_secs());
    let start = |_| {
        let mut bash = Command::from(in_cluster()?);
        Ok(bash.args(["bash", "-c", &script]).stdout(Stdio::piped()).kill_on_drop(true).spawn()?)
    };
    (0..SESSIONS).map(start).collect()
}

async fn ensure_ended(sessions: Vec<Child>, [begin, end]: [&str; 2]) -> Result<()> {
    for session in sessions {
        let output = session.wait_with_output().await?;
        let printed = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        ensure!(printed.starts_with(begin) && printed.ends_with(end), "a session printed {printed:?}");
    }
    Ok(())
}
