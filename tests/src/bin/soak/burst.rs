//! A hundredfold load on a running workload: how soon it grows, and how far.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use system_tests::load::{self, Load};
use system_tests::namespace::TestNamespace;
use system_tests::timeline::{Timeline, now_ms};
use system_tests::workload::{Workload, until_replicas};
use tokio::time::sleep;

use crate::report::Report;
use crate::writers::{Conduct, Sizes};

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
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-burst").await?;
    let mut both = Vec::new();
    for capacity in ["211", "0"] {
        both.push(Bursting::begin(&namespace, capacity).await?);
    }
    // Turn by turn, since each takes longer than a burst to be one pod again.
    for i in 0..sizes.bursts {
        for bursting in &mut both {
            bursting.burst(&namespace, i as f64 / sizes.bursts as f64).await?;
        }
    }
    for bursting in &both {
        bursting.tell(report);
    }
    namespace.delete().await
}

/// One workload, and what its bursts were like.
struct Bursting {
    capacity: &'static str,
    name: String,
    url: String,
    timeline: Timeline,
    /// Milliseconds from the first request to a size above one.
    first: Vec<f64>,
    /// The same to 20.
    twenty: Vec<f64>,
    /// The size at the end of each.
    ends: Vec<i32>,
    most: i32,
    failed: usize,
    conduct: Conduct,
}

// === impl Bursting ===

impl Bursting {
    /// Makes the workload, with this burst capacity.
    async fn begin(namespace: &TestNamespace, capacity: &'static str) -> Result<Self> {
        let name = format!("bursting-{capacity}");
        let workload = Workload { max_replicas: 60, target: TARGET.to_string(), ..Workload::new(&name) }
            .annotated("window", "60s")
            .annotated("scale-to-zero", "false")
            .annotated("target-burst-capacity", capacity);
        let timeline = Timeline::follow(namespace, &name);
        workload.create(namespace).await?;
        let url = workload.url(namespace).await?;
        load::until_answered(&url, namespace, UP).await?;
        let (first, twenty, ends) = (Vec::new(), Vec::new(), Vec::new());
        let conduct = Conduct::default();
        Ok(Self { capacity, name, url, timeline, first, twenty, ends, most: 0, failed: 0, conduct })
    }

    /// A burst that begins when this share of a second is over: pods finish their reports at whole ones.
    async fn burst(&mut self, namespace: &TestNamespace, share: f64) -> Result<()> {
        until_replicas(namespace, &self.name, |n| n == 1, CALM).await?;
        self.conduct.flip_flops += Sizes::of(&self.timeline.drain()).flip_flops();
        sleep(until_share(share)).await;
        let began = now_ms();
        let load = Load { new_connections: false, ..Load::concurrency(&self.url, CLIENTS, WORK, BURST) };
        let answers = load.run(namespace).await?;
        let grown = Sizes::of(&self.timeline.drain());
        self.failed += answers.iter().filter(|answer| answer.status != 200).count();
        self.conduct += grown.conduct();
        self.most = self.most.max(grown.most());
        let sent = || answers.iter().map(|answer| answer.sent_ms);
        let (began, end) = (sent().reduce(f64::min).unwrap_or(began), sent().fold(began, f64::max));
        let after = |size| grown.reached(size).map_or(f64::INFINITY, |at| at - began);
        let (first, twenty, size) = (after(2), after(20), grown.at(end).unwrap_or(1));
        println!(
            "  {}, at {:.0} ms of a second: {first:.0} ms to more than one, {twenty:.0} ms to 20, {size} at the end; {}",
            self.name,
            began % 1000.0,
            grown.writers()
        );
        self.first.push(first);
        self.twenty.push(twenty);
        self.ends.push(size);
        Ok(())
    }

    fn tell(&self, report: &mut Report) {
        let wanted = i64::from(CLIENTS.div_ceil(TARGET));
        let of = |what: &str| format!("{what}, burst capacity {}", self.capacity);
        report.time(&of("first rise, p50"), load::quantile(&self.first, 0.5), 1_200.0);
        report.time(&of("first rise, max"), load::quantile(&self.first, 1.0), 2_200.0);
        let twenty = load::quantile(&self.twenty, 0.5);
        if self.capacity == "0" {
            // Pods are heard when a second is over, and of what was left of the one in which the burst began.
            report.note(&of("20 replicas, p50"), format!("{twenty:.0} ms"));
        } else {
            report.time(&of("20 replicas, p50"), twenty, 4_500.0);
        }
        let least = self.ends.iter().copied().min().unwrap_or(0);
        report.exactly(&of("least size at the end of one"), i64::from(least), wanted);
        report.exactly(&of("largest size"), i64::from(self.most), wanted);
        report.count(&of("answers other than 200"), self.failed, 0);
        self.conduct.tell(report, &of(""));
    }
}

/// The time until so much of a second of the wall clock is over.
fn until_share(share: f64) -> Duration {
    Duration::from_secs_f64((1000.0 * share - now_ms()).rem_euclid(1000.0) / 1000.0)
}
