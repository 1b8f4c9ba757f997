//! Very many requests at once for a workload that sleeps, with the HPA at its stock period.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use system_tests::installation;
use system_tests::load::{self, Load};
use system_tests::namespace::TestNamespace;
use system_tests::timeline::{Happening, Timeline};
use system_tests::workload::Workload;

use crate::report::Report;
use crate::writers::Sizes;

/// Time that the app takes for a request, without working.
const WORK: Duration = Duration::from_secs(1);
/// Each caller sends one: shorter than its answer takes.
const SENDING: Duration = Duration::from_millis(900);
const UP: Duration = Duration::from_secs(60);
const LAST_ANSWER_MS: f64 = 8_000.0;

pub(crate) async fn run(client: &Client, sizes: &crate::Sizes, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "30s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-crowd").await?;
    let workload =
        Workload { replicas: 0, max_replicas: 20, target: "70".to_owned(), ..Workload::new("crowded") }
            .annotated("container-concurrency", "100")
            .annotated("window", "60s");
    let mut timeline = Timeline::follow(&namespace, &workload.name);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    load::until_activators_answer(&url, &namespace, UP).await?;
    timeline.drain();
    let answers = Load::concurrency(&url, sizes.crowd, WORK, SENDING).run(&namespace).await?;
    let began = answers.iter().map(|answer| answer.sent_ms).reduce(f64::min).context("nothing was sent")?;
    let entries = timeline.drain();
    print_timeline(began, &entries.iter().map(|e| (e.at_ms, &e.what)).collect::<Vec<_>>());

    let mut by_pod: BTreeMap<&str, usize> = BTreeMap::new();
    answers.iter().filter(|a| a.status == 200).for_each(|a| *by_pod.entry(a.pod.as_str()).or_default() += 1);
    let failed = answers.len() - by_pod.values().sum::<usize>();
    let mean = by_pod.values().sum::<usize>() as f64 / by_pod.len().max(1) as f64;
    let busiest = by_pod.values().copied().max().unwrap_or(0) as f64;
    let last = answers.iter().map(|a| a.sent_ms + a.ms - began).reduce(f64::max).unwrap_or(f64::NAN);
    println!("  {by_pod:?}");
    report.exactly("requests", i64::try_from(answers.len())?, i64::from(sizes.crowd));
    report.count("answers other than 200", failed, 0);
    report.time("the last answer", last, LAST_ANSWER_MS);
    report.ratio("the busiest pod's requests, by the mean", busiest / mean, 2.0);
    Sizes::of(&entries).tell(report);
    namespace.delete().await
}

fn print_timeline(began: f64, entries: &[(f64, &Happening)]) {
    let (mut created, mut ready) = (0, 0);
    for (at, what) in entries {
        let text = match what {
            Happening::Scaled { replicas, by } => {
                format!("size {replicas}, by {}", by.as_deref().unwrap_or("?"))
            }
            Happening::Created(_) => {
                created += 1;
                format!("{created} pods created")
            }
            Happening::Ready(_) => {
                ready += 1;
                format!("{ready} pods ready")
            }
            Happening::Switched { mode, activators } => {
                format!("requests go by {mode:?} ({activators} activators)")
            }
            Happening::Explained { reason, note } => format!("{reason}: {note}"),
            _ => continue,
        };
        println!("{:9.0} ms  {text}", at - began);
    }
}
