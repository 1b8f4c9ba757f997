//! Wakes half a second after the leaders of zero-scaler and metrics-adapter were killed.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use system_tests::load;
use system_tests::namespace::TestNamespace;
use system_tests::timeline::{Entry, Timeline};
use system_tests::workload::Workload;
use system_tests::{installation, wait};
use tokio::time::sleep;

use crate::report::Report;
use crate::writers::{BY_STRANGERS, Sizes};

const UP: Duration = Duration::from_secs(240);
/// Between the kill and the request.
const LATER: Duration = Duration::from_millis(500);
/// By how much such a wake may take longer than another.
const LATE_MS: f64 = 2_000.0;

pub(crate) async fn run(client: &Client, sizes: &crate::Sizes, report: &mut Report) -> Result<()> {
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-leaders").await?;
    let (mut normal, mut orphaned) = (Vec::new(), Vec::new());
    let mut entries = Vec::new();
    for i in 0..sizes.kills {
        normal.push(wake(&namespace, &format!("normal-{i}"), &mut entries, || async { Ok(()) }).await?);
        let name = format!("orphan-{i}");
        let killed = wake(&namespace, &name, &mut entries, || async {
            for part in ["zero-scaler", "metrics-adapter"] {
                let leader = installation::leader(client, part).await?;
                // On another machine than this its pod alone is taken away.
                let _ = installation::kill_process(&leader);
                installation::kill_pod(client, &leader).await?;
            }
            sleep(LATER).await;
            Ok(())
        });
        orphaned.push(killed.await?);
        installation::until_ready(client, UP).await?;
        for part in ["zero-scaler", "metrics-adapter"] {
            wait::until(&format!("somebody to lead {part}"), UP, || async {
                let leader = installation::leader(client, part).await?;
                Ok(installation::pods(client, part).await?.contains(&leader).then_some(()))
            })
            .await?;
        }
    }
    let normal = load::quantile(&normal, 0.5);
    report.note("a normal wake, p50", format!("{normal:.0} ms"));
    report.time("a wake without leaders, beyond that, max", load::quantile(&orphaned, 1.0) - normal, LATE_MS);
    let written = Sizes::of(&entries);
    report.exactly(
        "changes of size, one a wake",
        i64::try_from(written.changes())?,
        2 * i64::try_from(sizes.kills)?,
    );
    report.count(BY_STRANGERS, written.by_strangers(), 0);
    namespace.delete().await
}

/// Milliseconds until the first request of a workload that sleeps is answered, sent when `before` is done.
async fn wake<F: Future<Output = Result<()>>>(
    namespace: &TestNamespace,
    name: &str,
    entries: &mut Vec<Entry>,
    before: impl FnOnce() -> F,
) -> Result<f64> {
    let workload = Workload { replicas: 0, ..Workload::new(name) };
    let mut timeline = Timeline::follow(namespace, name);
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    load::until_activators_answer(&url, namespace, UP).await?;
    before().await?;
    timeline.drain();
    let answer = load::one_answer(&url, namespace).await?;
    entries.extend(timeline.drain());
    println!("  {name}: {:.0} ms, {}", answer.ms, answer.server_timing);
    Ok(answer.ms)
}
