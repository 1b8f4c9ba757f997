//! How soon a request to a workload at zero reaches the scale subresource.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use system_tests::cluster::installation::begin_exclusive;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Change, Timeline, TimelineEntry};
use system_tests::traffic::load::{self, create_at_zero, send_one_request};
use system_tests::workloads::workload::{Sidecar, Workload};

/// Enough for a pod's start on a loaded machine.
const POD_START: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn wake_writes_scale_subresource_within_50_ms() -> Result<()> {
    let namespace = begin_exclusive("latency").await?;
    for (sidecar, name) in [(Sidecar::Native, "sidecar"), (Sidecar::None, "plain")] {
        let workload = |i| Workload { sidecar, ..Workload::new(&format!("{name}-{i}")) };
        let workloads = (0..10).map(workload).collect();
        wakes_within_bounds(&namespace, workloads).await.with_context(|| name)?;
    }
    namespace.delete().await
}

async fn wakes_within_bounds(namespace: &TestNamespace, workloads: Vec<Workload>) -> Result<()> {
    let (mut patched, mut responded, mut ahead) = (Vec::new(), Vec::new(), Vec::new());
    // Only the set-up is concurrent; the wakes follow each other.
    let workloads = try_join_all(workloads.iter().map(|workload| at_zero(namespace, workload))).await?;
    for (url, mut timeline) in workloads {
        timeline.drain();
        let response = send_one_request(&url, namespace).await?;
        let mut entries = timeline.drain();
        let ready = ready_at(&mut entries, &mut timeline).await?;
        let patch = entries.iter().find(|entry| matches!(entry.change, Change::Scaled { .. }));
        let patch = patch.with_context(|| format!("spec.replicas did not change: {entries:?}"))?;
        patched.push(patch.at_ms - response.sent_ms);
        responded.push(response.ms);
        ahead.push(ready - (response.sent_ms + response.ms));
    }
    let p50 = load::quantile(&patched, 0.5);
    println!(
        "10 wakes: request to /scale p50 {p50:.1} ms, max {:.1} ms; request to response p50 {:.0} ms, max {:.0} ms; response \
         before the pod was seen Ready by p50 {:.0} ms, min {:.0} ms",
        load::quantile(&patched, 1.0),
        load::quantile(&responded, 0.5),
        load::quantile(&responded, 1.0),
        load::quantile(&ahead, 0.5),
        load::quantile(&ahead, 0.0)
    );
    ensure!(p50 <= 50.0, "request to /scale took {p50:.1} ms at p50: {patched:?}");
    // The sidecar announces the app, or the activator probes it, so a held request waits neither for
    // the kubelet's next probe nor for an EndpointSlice.
    ensure!(load::quantile(&ahead, 0.5) > 0.0, "requests were held until their pod was Ready: {ahead:?}");
    Ok(())
}

/// A workload at zero and its timeline, whose watches have begun: they report changes only, so the
/// initial state must have arrived before the request is sent.
async fn at_zero(namespace: &TestNamespace, workload: &Workload) -> Result<(String, Timeline)> {
    let url = create_at_zero(workload, namespace, POD_START).await?;
    let mut timeline = Timeline::follow(namespace, &workload.name);
    tokio::time::timeout(POD_START, timeline.next()).await.context("the watches did not begin")??;
    Ok((url, timeline))
}

/// When the workload's pod was seen to be Ready, in Unix milliseconds: among `entries` or later.
async fn ready_at(entries: &mut Vec<TimelineEntry>, timeline: &mut Timeline) -> Result<f64> {
    let find = |entries: &[TimelineEntry]| {
        entries.iter().find(|entry| matches!(entry.change, Change::PodReady(_))).map(|entry| entry.at_ms)
    };
    loop {
        if let Some(at) = find(entries) {
            return Ok(at);
        }
        entries.push(
            tokio::time::timeout(POD_START, timeline.next())
                .await
                .context("the pod did not become Ready")??,
        );
    }
}
