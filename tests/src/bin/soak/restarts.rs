//! Steady load through activators, while each of our own parts is restarted, and each leader killed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::Api;
use system_tests::installation;
use system_tests::load::{self, Load, Running};
use system_tests::namespace::TestNamespace;
use system_tests::timeline::{Timeline, now_ms};
use system_tests::workload::{Workload, until_replicas};
use tokio::time::sleep;

use crate::report::Report;
use crate::writers::Sizes;

/// Time that the app takes for a request.
const WORK: Duration = Duration::from_millis(50);
/// Longer than all of it takes; the load ends with the scenario.
const LONGEST: Duration = Duration::from_secs(3600);
/// So many of the requests that are due at least; a client on a busy machine sends some late.
const SENT: f64 = 0.95;
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
    load::until_answered(&url, &namespace, UP).await?;
    let load = Load { work: WORK, ..Load::rate(&url, sizes.steady_rate, LONGEST) };
    let mut load =
        Steady { load: load.start(&namespace).await?, rate: sizes.steady_rate, since: now_ms(), answered: 0 };

    for part in installation::PARTS {
        installation::restart_part(client, part).await?;
        installation::until_rolled_out(client, part, UP).await?;
        load.calm(report, &format!("rolling restart of {part}"), 0).await?;
    }
    let deployments: Api<Deployment> = namespace.api();
    deployments.restart(&workload.name).await?;
    until_replicas(&namespace, &workload.name, |n| n == 2, UP).await?;
    load.calm(report, "rolling restart of the pods, and so of their queue-proxies", 0).await?;

    for part in ["metrics-adapter", "zero-scaler"] {
        let leader = installation::leader(client, part).await?;
        installation::kill(client, &leader).await?;
        load.calm(report, &format!("the leading {part} killed"), 0).await?;
        installation::until_ready(client, UP).await?;
    }
    // Half of the requests go through it, and each is under way for as long as the app works.
    let in_flight = (sizes.steady_rate * WORK.as_secs_f64() / 2.0).ceil() as usize + 1;
    let activator = installation::pods(client, "activator").await?.into_iter().next().unwrap_or_default();
    installation::kill_pod(client, &activator).await?;
    load.calm(report, "an activator killed: requests in flight on it", in_flight).await?;
    report.note("requests", load.answered.to_string());
    drop(load);
    let written = Sizes::of(&timeline.drain());
    report.count("changes of the size", written.changes(), 0);
    written.tell(report);
    namespace.delete().await
}

/// A load under way, and what came of it.
struct Steady {
    load: Running,
    rate: f64,
    /// Unix milliseconds of the moment up to which answers were counted.
    since: f64,
    answered: usize,
}

// === impl Steady ===

impl Steady {
    /// Lets the load go on for a while, and counts what failed since it was last asked.
    async fn calm(&mut self, report: &mut Report, what: &str, bound: usize) -> Result<()> {
        sleep(AFTER).await;
        let now = now_ms();
        let due = self.rate * (now - self.since) / 1000.0;
        let (mut answers, mut failed) = (0_u32, Vec::new());
        loop {
            let answer = self.load.next().await.context("the load ended by itself")?;
            answers += 1;
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
        ensure!(f64::from(answers) > SENT * due, "{answers} requests were answered where {due:.0} were due");
        self.answered += answers as usize;
        self.since = now;
        Ok(())
    }
}
