//! Wakes half a second after the leaders of zero-scaler and metrics-adapter were killed.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use system_tests::load::{self, Load};
use system_tests::namespace::TestNamespace;
use system_tests::workload::Workload;
use system_tests::{installation, wait};
use tokio::time::sleep;

use crate::report::Report;

const UP: Duration = Duration::from_secs(240);
/// Between the kill and the request.
const LATER: Duration = Duration::from_millis(500);
/// By how much such a wake may take longer than another.
const LATE_MS: f64 = 2_000.0;

pub(crate) async fn run(client: &Client, sizes: &crate::Sizes, report: &mut Report) -> Result<()> {
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-leaders").await?;
    let (mut normal, mut orphaned) = (Vec::new(), Vec::new());
    for i in 0..sizes.kills {
        normal.push(wake(&namespace, &format!("normal-{i}"), || async { Ok(()) }).await?);
        let name = format!("orphan-{i}");
        let killed = wake(&namespace, &name, || async {
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
    namespace.delete().await
}

/// Milliseconds until the first request of a workload that sleeps is answered, sent when `before` is done.
async fn wake<F: Future<Output = Result<()>>>(
    namespace: &TestNamespace,
    name: &str,
    before: impl FnOnce() -> F,
) -> Result<f64> {
    let workload = Workload { replicas: 0, ..Workload::new(name) };
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    wait::until("an activator in the path", UP, || async {
        let answers = Load::probe(&url).run(namespace).await?;
        Ok(answers.iter().any(|answer| answer.status == 200).then_some(()))
    })
    .await?;
    before().await?;
    let answers = Load::one(&url).run(namespace).await?;
    load::all_ok(&answers)?;
    Ok(answers.first().context("the client pod sent nothing")?.ms)
}
