//! What a wake does not wait for: the next decision before the scale subresource is written, and
//! the kubelet's next probe before the response. `make soak ARGS='--only wakes'` has bounds for the
//! times.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use system_tests::cluster::installation::begin_exclusive;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::version::Feature;
use system_tests::timeline::{Change, Timeline, TimelineEntry};
use system_tests::traffic::load::{self, create_at_zero, send_one_request};
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::{Sidecar, Workload};

/// Enough for a median.
const WAKES: usize = 7;
/// Without the activator's report, a wake takes this long for the next decision, at p50.
const HALF_DECISION_PERIOD_MS: f64 = 1000.0;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn wakes_wait_neither_for_a_decision_nor_for_a_probe() -> Result<()> {
    let namespace = begin_exclusive("latency").await?;
    for (sidecar, name) in [(Sidecar::Native, "sidecar"), (Sidecar::None, "plain")] {
        let workload = |i| Workload { sidecar, ..Workload::new(&format!("{name}-{i}")) };
        let workloads = (0..WAKES).map(workload).collect();
        let wakes = wake_all(&namespace, workloads).await.with_context(|| name)?;
        let [patched, ahead] = [&wakes.patched, &wakes.ahead].map(|ms| load::quantile(ms, 0.5));
        ensure!(patched < HALF_DECISION_PERIOD_MS, "{name}: /scale was not written for reports: {wakes:?}");
        // The sidecar announces the app, so a held request does not wait for the kubelet's next
        // probe. With newer kubelets the two are milliseconds apart.
        let is_probed_late =
            sidecar == Sidecar::Native && !Feature::PlegOnDemandRelist.is_served(&namespace.client).await?;
        ensure!(
            ahead > 0.0 || !is_probed_late,
            "{name}: requests were held until their pod was Ready: {wakes:?}"
        );
    }
    namespace.end().await
}

/// Milliseconds of each wake.
#[derive(Debug, Default)]
struct Wakes {
    /// From the request to the write of the scale subresource.
    patched: Vec<f64>,
    /// From the request to its response.
    responded: Vec<f64>,
    /// From the response to the readiness of the pod.
    ahead: Vec<f64>,
}

async fn wake_all(namespace: &TestNamespace, workloads: Vec<Workload>) -> Result<Wakes> {
    let mut wakes = Wakes::default();
    // Only the set-up is concurrent; the wakes follow each other.
    let workloads = try_join_all(workloads.iter().map(|workload| at_zero(namespace, workload))).await?;
    for (url, mut timeline) in workloads {
        timeline.drain();
        let response = send_one_request(&url, namespace).await?;
        let mut entries = timeline.drain();
        let ready = ready_at(&mut entries, &mut timeline).await?;
        let patch = entries.iter().find(|entry| matches!(entry.change, Change::Scaled { .. }));
        let patch = patch.with_context(|| format!("spec.replicas did not change: {entries:?}"))?;
        wakes.patched.push(patch.at_ms - response.sent_ms);
        wakes.responded.push(response.ms);
        wakes.ahead.push(ready - (response.sent_ms + response.ms));
    }
    println!(
        "{WAKES} wakes: request to /scale p50 {:.1} ms, max {:.1} ms; request to response p50 {:.0} ms, max {:.0} ms; response \
         before the pod was seen Ready by p50 {:.0} ms, min {:.0} ms",
        load::quantile(&wakes.patched, 0.5),
        load::quantile(&wakes.patched, 1.0),
        load::quantile(&wakes.responded, 0.5),
        load::quantile(&wakes.responded, 1.0),
        load::quantile(&wakes.ahead, 0.5),
        load::quantile(&wakes.ahead, 0.0)
    );
    Ok(wakes)
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
