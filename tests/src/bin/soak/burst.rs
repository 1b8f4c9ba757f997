//! A hundredfold load on a running workload: how soon it grows, and how far.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use system_tests::load::{self, Load};
use system_tests::namespace::TestNamespace;
use system_tests::timeline::{Timeline, now_ms};
use system_tests::workload::{Workload, until_replicas};

use crate::report::Report;
use crate::writers::Sizes;

/// Requests at a time in a burst, and how many one pod should carry.
const CLIENTS: u32 = 200;
const TARGET: u32 = 7;
/// So long that the pauses between a caller's requests count for little: twenty pods are asked for by no less than 99.8 % of four seconds.
const WORK: Duration = Duration::from_secs(1);
/// Longer than the stable window, so that the size at its end is the load's.
const BURST: Duration = Duration::from_secs(75);
/// Until one pod is left of thirty, after the window.
const CALM: Duration = Duration::from_secs(400);
const UP: Duration = Duration::from_secs(60);

pub(crate) async fn run(client: &Client, sizes: &crate::Sizes, report: &mut Report) -> Result<()> {
    for capacity in ["211", "0"] {
        let namespace = TestNamespace::create(client.clone(), "rouse-soak-burst").await?;
        bursts(&namespace, sizes.bursts, capacity, report).await?;
        namespace.delete().await?;
    }
    Ok(())
}

async fn bursts(namespace: &TestNamespace, bursts: usize, capacity: &str, report: &mut Report) -> Result<()> {
    let workload = Workload { max_replicas: 60, target: TARGET.to_string(), ..Workload::new("bursting") }
        .annotated("window", "60s")
        .annotated("scale-to-zero", "false")
        .annotated("target-burst-capacity", capacity);
    let mut timeline = Timeline::follow(namespace, &workload.name);
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    load::until_answered(&url, namespace, UP).await?;
    let wanted = i32::try_from(CLIENTS.div_ceil(TARGET))?;
    let (mut first, mut twenty, mut failed) = (Vec::new(), Vec::new(), 0);
    let (mut flip_flops, mut untold, mut strangers) = (0, 0, 0);
    let (mut most, mut last) = (0, wanted);
    for _ in 0..bursts {
        until_replicas(namespace, &workload.name, |n| n == 1, CALM).await?;
        flip_flops += Sizes::of(&timeline.drain()).flip_flops();
        let began = now_ms();
        let load = Load { new_connections: false, ..Load::concurrency(&url, CLIENTS, WORK, BURST) };
        let answers = load.run(namespace).await?;
        failed += answers.iter().filter(|answer| answer.status != 200).count();
        let sent = answers.iter().map(|answer| answer.sent_ms).reduce(f64::min).unwrap_or(began);
        let grown = Sizes::of(&timeline.drain());
        first.push(grown.reached(2).map_or(f64::INFINITY, |at| at - sent));
        twenty.push(grown.reached(20).map_or(f64::INFINITY, |at| at - sent));
        most = most.max(grown.most());
        flip_flops += grown.flip_flops();
        untold += grown.untold();
        strangers += grown.by_strangers();
        let end = answers.iter().map(|answer| answer.sent_ms).fold(began, f64::max);
        let size = grown.at(end).unwrap_or(1);
        last = if size == wanted { last } else { size };
        println!(
            "  {:.0} ms to more than one, {:.0} ms to 20, {size} at the end; {}",
            first.last().unwrap_or(&f64::NAN),
            twenty.last().unwrap_or(&f64::NAN),
            grown.writers()
        );
    }
    let of = |what: &str| format!("{what}, burst capacity {capacity}");
    report.time(&of("first rise, p50"), load::quantile(&first, 0.5), 1_200.0);
    report.time(&of("first rise, max"), load::quantile(&first, 1.0), 2_200.0);
    let twenty = load::quantile(&twenty, 0.5);
    if capacity == "0" {
        // Pods are heard when a second is over, and of what was left of the one in which the burst began.
        report.note(&of("20 replicas, p50"), format!("{twenty:.0} ms"));
    } else {
        report.time(&of("20 replicas, p50"), twenty, 4_500.0);
    }
    report.exactly(&of("size at the end of each"), i64::from(last), i64::from(wanted));
    report.exactly(&of("largest size"), i64::from(most), i64::from(wanted));
    report.count(&of("sizes written by others than the HPA and us"), strangers, 0);
    report.count(&of("our changes of size without their event, or the reverse"), untold, 0);
    report.count(&of("sizes taken back"), flip_flops, 0);
    report.count(&of("answers other than 200"), failed, 0);
    Ok(())
}
