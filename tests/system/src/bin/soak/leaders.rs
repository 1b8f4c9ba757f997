//! Scenario: wakes half a second after the leaders of zero-scaler and metrics-adapter were killed.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use system_tests::cluster::installation;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Timeline, TimelineEntry};
use system_tests::traffic::load;
use system_tests::wait;
use system_tests::workloads::workload::Workload;
use tokio::time::sleep;

use crate::report::Report;
use crate::size_changes::{SizeChanges, UNEXPECTED_WRITERS};

const UP: Duration = Duration::from_secs(240);
/// Between the kill and the request.
const LATER: Duration = Duration::from_millis(500);
/// How much longer than others such a wake may take.
const LATE_MS: f64 = 2_000.0;

pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-leaders").await?;
    let (mut normal, mut leaderless) = (Vec::new(), Vec::new());
    let mut entries = Vec::new();
    for i in 0..lengths.kills {
        normal.push(wake(&namespace, &format!("normal-{i}"), &mut entries, || async { Ok(()) }).await?);
        let name = format!("leaderless-{i}");
        let killed = wake(&namespace, &name, &mut entries, || async {
            for part in ["zero-scaler", "metrics-adapter"] {
                let leader = installation::leader(client, part).await?;
                // Fails where the process runs on another machine; deleting the pod suffices there.
                let _ = installation::kill_process(&leader);
                installation::kill_pod(client, &leader).await?;
            }
            sleep(LATER).await;
            Ok(())
        });
        leaderless.push(killed.await?);
        installation::until_ready(client, UP).await?;
        for part in ["zero-scaler", "metrics-adapter"] {
            wait::until(&format!("a leader of {part}"), UP, || async {
                let leader = installation::leader(client, part).await?;
                Ok(installation::ready_pods(client, part).await?.contains(&leader).then_some(()))
            })
            .await?;
        }
    }
    let normal = load::quantile(&normal, 0.5);
    report.note("a wake with leaders, p50", format!("{normal:.0} ms"));
    report.time(
        "a wake without leaders, excess over that, max",
        load::quantile(&leaderless, 1.0) - normal,
        LATE_MS,
    );
    let written = SizeChanges::of(&entries);
    report.exactly(
        "changes of size, one for each wake",
        i64::try_from(written.changes())?,
        2 * i64::try_from(lengths.kills)?,
    );
    report.count(UNEXPECTED_WRITERS, written.by_unexpected_writers(), 0);
    namespace.delete().await
}

/// Milliseconds until the response to the first request of a workload at zero, sent after `before`.
async fn wake<F: Future<Output = Result<()>>>(
    namespace: &TestNamespace,
    name: &str,
    entries: &mut Vec<TimelineEntry>,
    before: impl FnOnce() -> F,
) -> Result<f64> {
    let workload = Workload { replicas: 0, ..Workload::new(name) };
    let mut timeline = Timeline::follow(namespace, name);
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    load::until_activators_respond(&url, namespace, UP).await?;
    before().await?;
    timeline.drain();
    let response = load::send_one_request(&url, namespace).await?;
    entries.extend(timeline.drain());
    println!("  {name}: {:.0} ms, {}", response.ms, response.server_timing);
    Ok(response.ms)
}
