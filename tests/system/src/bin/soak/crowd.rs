//! Scenario: very many concurrent requests to a workload at zero, with the HPA at its stock period.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use system_tests::cluster::installation;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Change, Timeline};
use system_tests::traffic::load::{self, Load};
use system_tests::workloads::workload::Workload;

use crate::report::Report;
use crate::size_changes::SizeChanges;

/// Time that the app takes for a request; it sleeps and uses no CPU.
const WORK: Duration = Duration::from_secs(1);
/// Shorter than a response takes, so each client sends one request.
const SENDING: Duration = Duration::from_millis(900);
const UP: Duration = Duration::from_secs(60);
const LAST_RESPONSE_MS: f64 = 8_000.0;

pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "30s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-crowd").await?;
    let workload =
        Workload { replicas: 0, max_replicas: 20, target: "70".to_owned(), ..lengths.workload("crowded") }
            .annotated("container-concurrency", "100")
            .annotated("window", "60s");
    let mut timeline = Timeline::follow(&namespace, &workload.name);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    load::until_activators_respond(&url, &namespace, UP).await?;
    timeline.drain();
    let responses = Load::concurrency(&url, lengths.crowd, WORK, SENDING).run(&namespace).await?;
    let began =
        responses.iter().map(|response| response.sent_ms).reduce(f64::min).context("nothing was sent")?;
    let entries = timeline.drain();
    print_timeline(began, &entries.iter().map(|e| (e.at_ms, &e.change)).collect::<Vec<_>>());

    let mut by_pod: BTreeMap<&str, usize> = BTreeMap::new();
    responses
        .iter()
        .filter(|a| a.status == 200)
        .for_each(|a| *by_pod.entry(a.pod.as_str()).or_default() += 1);
    let failed = responses.len() - by_pod.values().sum::<usize>();
    let mean = by_pod.values().sum::<usize>() as f64 / by_pod.len().max(1) as f64;
    let busiest = by_pod.values().copied().max().unwrap_or(0) as f64;
    let last = responses.iter().map(|a| a.sent_ms + a.ms - began).reduce(f64::max).unwrap_or(f64::NAN);
    println!("  {by_pod:?}");
    report.exactly("requests", i64::try_from(responses.len())?, i64::from(lengths.crowd));
    report.count("responses other than 200", failed, 0);
    report.time("the last response", last, LAST_RESPONSE_MS);
    report.ratio("requests of the busiest pod, relative to the mean", busiest / mean, 2.0);
    SizeChanges::of(&entries).add_to(report);
    namespace.delete().await
}

fn print_timeline(began: f64, entries: &[(f64, &Change)]) {
    let (mut created, mut ready) = (0, 0);
    for (at, what) in entries {
        let text = match what {
            Change::Scaled { replicas, by } => {
                format!("spec.replicas {replicas}, written by {}", by.as_deref().unwrap_or("?"))
            }
            Change::PodCreated(_) => {
                created += 1;
                format!("{created} pods created")
            }
            Change::PodReady(_) => {
                ready += 1;
                format!("{ready} pods ready")
            }
            Change::RouteChanged { mode, activators } => {
                format!("mode {mode:?}, {activators} activators")
            }
            Change::EventReported { reason, note } => format!("{reason}: {note}"),
            _ => continue,
        };
        println!("{:9.0} ms  {text}", at - began);
    }
}
