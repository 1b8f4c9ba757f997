//! Steady load through activators, while each of our own parts is restarted, and each leader killed.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::Api;
use system_tests::load::{Answer, Load, Running};
use system_tests::namespace::TestNamespace;
use system_tests::timeline::{Timeline, now_ms};
use system_tests::workload::{Workload, until_replicas};
use system_tests::{installation, wait};
use tokio::time::sleep;

use crate::report::Report;
use crate::writers::Sizes;

/// Time that the app takes for a request.
const WORK: Duration = Duration::from_millis(50);
/// Longer than all of it takes; the load ends with the scenario.
const LONGEST: Duration = Duration::from_secs(3600);
/// What follows of a restart shows within so much time.
const AFTER: Duration = Duration::from_secs(15);
const UP: Duration = Duration::from_secs(240);

pub(crate) async fn run(client: &Client, sizes: &crate::Sizes, report: &mut Report) -> Result<()> {
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-restarts").await?;
    // Two pods whatever the load, and always behind activators.
    let workload = Workload { min_replicas: 2, max_replicas: 2, replicas: 2, ..Workload::new("steady") }
        .annotated("scale-to-zero", "false")
        .annotated("target-burst-capacity", "-1");
    let mut timeline = Timeline::follow(&namespace, &workload.name);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    wait::until("the first answer", UP, || async {
        Ok(system_tests::load::all_ok(&Load::one(&url).run(&namespace).await?).ok())
    })
    .await?;
    let mut load =
        Load { work: WORK, ..Load::rate(&url, sizes.steady_rate, LONGEST) }.start(&namespace).await?;

    for part in installation::PARTS {
        installation::restart_part(client, part).await?;
        installation::until_rolled_out(client, part, UP).await?;
        calm(&mut load, report, &format!("rolling restart of {part}"), 0).await;
    }
    let deployments: Api<Deployment> = namespace.api();
    deployments.restart(&workload.name).await?;
    until_replicas(&namespace, &workload.name, |n| n == 2, UP).await?;
    calm(&mut load, report, "rolling restart of the pods, and so of their queue-proxies", 0).await;

    for part in ["metrics-adapter", "zero-scaler"] {
        let leader = installation::leader(client, part).await?;
        installation::kill(client, &leader).await?;
        calm(&mut load, report, &format!("the leading {part} killed"), 0).await;
        installation::until_ready(client, UP).await?;
    }
    // Half of the requests go through it, and each is under way for as long as the app works.
    let in_flight = (sizes.steady_rate * WORK.as_secs_f64() / 2.0).ceil() as usize + 1;
    let activator = installation::pods(client, "activator").await?.into_iter().next().unwrap_or_default();
    installation::kill_pod(client, &activator).await?;
    calm(&mut load, report, "an activator killed: requests in flight on it", in_flight).await;
    drop(load);
    Sizes::of(&timeline.drain()).tell(report);
    namespace.delete().await
}

/// Lets the load go on for a while, and counts what failed since it was last asked.
async fn calm(load: &mut Running, report: &mut Report, what: &str, bound: usize) {
    sleep(AFTER).await;
    let now = now_ms();
    let mut failed: Vec<Answer> = Vec::new();
    while let Some(answer) = load.next().await {
        let recent = answer.sent_ms + answer.ms >= now;
        if answer.status != 200 {
            failed.push(answer);
        }
        if recent {
            break;
        }
    }
    failed.iter().take(5).for_each(|answer| println!("  {answer:?}"));
    report.count(&format!("failed requests, {what}"), failed.len(), bound);
}
