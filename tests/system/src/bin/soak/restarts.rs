//! Scenario: steady load through activators while each component is restarted and each leader
//! killed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::Api;
use system_tests::cluster::installation;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Timeline, now_ms};
use system_tests::traffic::load::{self, Load, RunningLoad};
use system_tests::workloads::workload::{Workload, until_replicas};
use tokio::time::sleep;

use crate::report::Report;
use crate::size_changes::SizeChanges;

/// Time that the app takes for a request.
const WORK: Duration = Duration::from_millis(50);
/// Longer than the scenario, which ends the load.
const LONGEST: Duration = Duration::from_secs(3600);
/// Minimum share of the due requests; a client on a busy machine sends some late.
const SENT: f64 = 0.95;
/// Time in which failures caused by a restart appear.
const AFTER: Duration = Duration::from_secs(15);
const UP: Duration = Duration::from_secs(240);

pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-restarts").await?;
    // Two pods at any load, and always behind activators.
    let workload = Workload { min_replicas: 2, max_replicas: 2, replicas: 2, ..lengths.workload("steady") }
        .annotated("scale-to-zero", "false")
        .annotated("target-burst-capacity", "-1");
    let mut timeline = Timeline::follow(&namespace, &workload.name);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    load::until_first_response(&url, &namespace, UP).await?;
    let load = Load { work: WORK, ..Load::rate(&url, lengths.steady_rate, LONGEST) };
    let mut load = Steady {
        load: load.start(&namespace).await?,
        rate: lengths.steady_rate,
        since: now_ms(),
        answered: 0,
    };

    for part in installation::COMPONENTS {
        installation::restart_component(client, part).await?;
        installation::until_rolled_out(client, part, UP).await?;
        load.count_failures(report, &format!("rolling restart of {part}"), 0).await?;
    }
    let deployments: Api<Deployment> = namespace.api();
    deployments.restart(&workload.name).await?;
    until_replicas(&namespace, &workload.name, |n| n == 2, UP).await?;
    load.count_failures(report, "rolling restart of the pods", 0).await?;

    for part in ["metrics-adapter", "zero-scaler"] {
        let leader = installation::leader(client, part).await?;
        installation::kill(client, &leader).await?;
        load.count_failures(report, &format!("the leading {part} was killed"), 0).await?;
        installation::until_ready(client, UP).await?;
    }
    // Half of the requests pass the killed activator, and each is in flight for as long as the app
    // works.
    let in_flight = (lengths.steady_rate * WORK.as_secs_f64() / 2.0).ceil() as usize + 1;
    let activator =
        installation::ready_pods(client, "activator").await?.into_iter().next().unwrap_or_default();
    installation::kill_pod(client, &activator).await?;
    load.count_failures(report, "an activator was killed (bound: requests in flight on it)", in_flight)
        .await?;
    report.note("requests", load.answered.to_string());
    drop(load);
    let written = SizeChanges::of(&timeline.drain());
    report.count("changes of the size", written.changes(), 0);
    written.add_to(report);
    namespace.delete().await
}

/// A running load and its results so far.
struct Steady {
    load: RunningLoad,
    rate: f64,
    /// Up to this time, in Unix milliseconds, results were counted.
    since: f64,
    answered: usize,
}

// === impl Steady ===

impl Steady {
    /// Lets the load run on for a while and counts the failures since the last call.
    async fn count_failures(&mut self, report: &mut Report, cause: &str, bound: usize) -> Result<()> {
        sleep(AFTER).await;
        let now = now_ms();
        let due = self.rate * (now - self.since) / 1000.0;
        let (mut responses, mut failed) = (0_u32, Vec::new());
        loop {
            let response = self.load.next().await.context("the load ended early")?;
            responses += 1;
            let recent = response.sent_ms + response.ms >= now;
            if response.status != 200 {
                failed.push(response);
            }
            if recent {
                break;
            }
        }
        failed.iter().take(5).for_each(|response| println!("  {response:?}"));
        report.count(&format!("failed requests, {cause}"), failed.len(), bound);
        ensure!(f64::from(responses) > SENT * due, "{responses} responses where {due:.0} were due");
        self.answered += responses as usize;
        self.since = now;
        Ok(())
    }
}
