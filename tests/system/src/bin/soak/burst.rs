//! Scenario: a hundredfold load on a running workload. Measures how soon and how far it scales up.

use std::time::Duration;

use anyhow::Result;
use kube::Client;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Timeline, now_ms};
use system_tests::traffic::load::{self, Load};
use system_tests::workloads::workload::{Workload, until_replicas};
use tokio::time::sleep;

use crate::report::Report;
use crate::size_changes::{SizeChanges, SizeViolations};

/// Concurrent requests in a burst, and the HPA's target for one pod.
const CLIENTS: u32 = 200;
const TARGET: u32 = 7;
/// Long compared with a client's pause between requests: four seconds of twenty pods' worth of load
/// are measured as at least 99.8 % of the load.
const WORK: Duration = Duration::from_secs(1);
/// Longer than the stable window, so that the final size follows from the load alone.
const BURST: Duration = Duration::from_secs(75);
/// Time to scale down from thirty pods to one, after the window.
const CALM: Duration = Duration::from_secs(400);
const UP: Duration = Duration::from_secs(60);

pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-burst").await?;
    let mut both = Vec::new();
    // Activators are in the path of pods without a sidecar at any capacity.
    let capacities: &[_] = if lengths.sidecar { &["211", "0"] } else { &["211"] };
    for &capacity in capacities {
        both.push(Bursting::begin(&namespace, lengths, capacity).await?);
    }
    // Alternating, because each takes longer than a burst to return to one pod.
    for i in 0..lengths.bursts {
        for bursting in &mut both {
            bursting.burst(&namespace, i as f64 / lengths.bursts as f64).await?;
        }
    }
    for bursting in &both {
        bursting.add_to(report);
    }
    namespace.delete().await
}

/// One workload and the measurements of its bursts.
struct Bursting {
    capacity: &'static str,
    name: String,
    url: String,
    timeline: Timeline,
    /// Milliseconds from the first request to a size above one.
    first: Vec<f64>,
    /// Milliseconds from the first request to a size of 20.
    twenty: Vec<f64>,
    /// The size at the end of each burst.
    ends: Vec<i32>,
    largest: i32,
    failed: usize,
    violations: SizeViolations,
}

// === impl Bursting ===

impl Bursting {
    /// Applies the workload with this burst capacity.
    async fn begin(
        namespace: &TestNamespace,
        lengths: &crate::args::Lengths,
        capacity: &'static str,
    ) -> Result<Self> {
        let name = format!("bursting-{capacity}");
        let workload = Workload { max_replicas: 60, target: TARGET.to_string(), ..lengths.workload(&name) }
            .annotated("window", "60s")
            .annotated("scale-to-zero", "false")
            .annotated("target-burst-capacity", capacity);
        let timeline = Timeline::follow(namespace, &name);
        workload.create(namespace).await?;
        let url = workload.url(namespace).await?;
        load::until_first_response(&url, namespace, UP).await?;
        let (first, twenty, ends) = (Vec::new(), Vec::new(), Vec::new());
        let violations = SizeViolations::default();
        Ok(Self { capacity, name, url, timeline, first, twenty, ends, largest: 0, failed: 0, violations })
    }

    /// Starts a burst at this fraction of a second of the wall clock: pods close their reports at
    /// whole seconds, so the fraction affects the delay.
    async fn burst(&mut self, namespace: &TestNamespace, share: f64) -> Result<()> {
        until_replicas(namespace, &self.name, |n| n == 1, CALM).await?;
        self.violations.flip_flops += SizeChanges::of(&self.timeline.drain()).flip_flops();
        sleep(until_share(share)).await;
        let began = now_ms();
        let load = Load { new_connections: false, ..Load::concurrency(&self.url, CLIENTS, WORK, BURST) };
        let responses = load.run(namespace).await?;
        let grown = SizeChanges::of(&self.timeline.drain());
        self.failed += responses.iter().filter(|response| response.status != 200).count();
        self.violations += grown.violations();
        self.largest = self.largest.max(grown.largest());
        let sent = || responses.iter().map(|response| response.sent_ms);
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

    fn add_to(&self, report: &mut Report) {
        let wanted = i64::from(CLIENTS.div_ceil(TARGET));
        let of = |what: &str| format!("{what}, burst capacity {}", self.capacity);
        report.time(&of("first scale-up, p50"), load::quantile(&self.first, 0.5), 1_200.0);
        report.time(&of("first scale-up, max"), load::quantile(&self.first, 1.0), 2_200.0);
        let twenty = load::quantile(&self.twenty, 0.5);
        if self.capacity == "0" {
            // No bound: without spare capacity only the pods report, at the end of each second, so
            // the delay depends on when in a second the burst begins.
            report.note(&of("20 replicas, p50"), format!("{twenty:.0} ms"));
        } else {
            report.time(&of("20 replicas, p50"), twenty, 4_500.0);
        }
        let least = self.ends.iter().copied().min().unwrap_or(0);
        report.exactly(&of("smallest size at the end of a burst"), i64::from(least), wanted);
        report.exactly(&of("largest size"), i64::from(self.largest), wanted);
        report.count(&of("responses other than 200"), self.failed, 0);
        self.violations.add_to(report, &of(""));
    }
}

/// Time until this fraction of a second of the wall clock has passed.
fn until_share(share: f64) -> Duration {
    Duration::from_secs_f64((1000.0 * share - now_ms()).rem_euclid(1000.0) / 1000.0)
}
