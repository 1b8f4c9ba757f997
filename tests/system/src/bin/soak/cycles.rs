//! Scenario: from zero to one replica and back many times. Each cycle sends its requests at another
//! moment of the scale-to-zero sequence.

use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::api::SksMode;
use kube::Client;
use system_tests::cluster::installation;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Change, Timeline, TimelineEntry};
use system_tests::traffic::load::{Load, Response, until_activators_respond};
use system_tests::workloads::workload::{Sidecar, Workload};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::report::Report;
use crate::size_changes::{SizeChanges, SizeViolations, UNEXPECTED_WRITERS, UNEXPLAINED};

/// Requests a second, each on a new connection.
const RATE: f64 = 20.0;
const LOADED: Duration = Duration::from_secs(2);
/// Time until a new Service is reachable.
const REACHED: Duration = Duration::from_secs(30);
/// Time to reach zero after the last request.
const TO_ZERO: Duration = Duration::from_secs(180);
/// Requests begin up to this many milliseconds after the workload reached zero, different in each
/// cycle.
const SPREAD: u64 = 700;
/// From the last request of a workload without a sidecar to the first moment of its disturbed
/// scale-to-zero sequence, and milliseconds in which the others are: the window is 6 s long, and
/// the grace period a second.
const SEQUENCE: Duration = Duration::from_millis(5_500);
const SEQUENCE_SPREAD: u64 = 2_500;
/// One in this many cycles gets requests during its scale-to-zero sequence.
const DISTURBED: usize = 4;

/// The results of one workload.
#[derive(Default)]
struct CycleResults {
    cycles: usize,
    responses: Vec<Response>,
    entries: Vec<TimelineEntry>,
}

pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "1s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-cycles").await?;
    let each = lengths.cycles.div_ceil(lengths.cyclers);
    let mut workers = JoinSet::new();
    for worker in 0..lengths.cyclers {
        workers.spawn(cycle(namespace.clone(), lengths.workload(&format!("w{worker}")), worker, each));
    }
    let mut results = CycleResults::default();
    let (mut changes, mut violations) = (0, SizeViolations::default());
    while let Some(worker) = workers.join_next().await {
        let one = worker??;
        let sizes = SizeChanges::of(&one.entries);
        changes += sizes.changes();
        violations += sizes.violations();
        results.cycles += one.cycles;
        results.responses.extend(one.responses);
    }
    let failed: Vec<&Response> = results.responses.iter().filter(|response| response.status != 200).collect();
    failed.iter().take(5).for_each(|response| println!("  {response:?}"));
    report.note("requests", results.responses.len().to_string());
    report.note("cycles", results.cycles.to_string());
    report.count("responses other than 200", failed.len(), 0);
    // One change up and one down for each cycle, and a tolerance of one for each workload.
    report.count("changes of the size", changes, 2 * results.cycles + lengths.cyclers);
    report.count(UNEXPECTED_WRITERS, violations.by_unexpected_writers, 0);
    // The event on the last change of each workload may arrive after its watch ended.
    report.count(UNEXPLAINED, violations.unexplained, lengths.cyclers);
    report.count(
        "sizes reversed, other than by wakes",
        violations.flip_flops.saturating_sub(results.cycles),
        0,
    );
    namespace.delete().await
}

async fn cycle(
    namespace: TestNamespace,
    workload: Workload,
    worker: usize,
    cycles: usize,
) -> Result<CycleResults> {
    // Without spare capacity requests go straight to the pod while there is one, so each cycle
    // changes the route twice if the pods have a sidecar.
    let workload =
        Workload { replicas: 0, max_replicas: 1, ..workload }.annotated("target-burst-capacity", "0");
    let mut timeline = Timeline::follow(&namespace, &workload.name);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    let mut results = CycleResults::default();
    until(&mut timeline, &mut results.entries, is_proxied).await?;
    // kube-proxy refuses connections to a Service until it has programmed the first endpoints.
    until_activators_respond(&url, &namespace, REACHED).await?;
    for cycle in 0..cycles {
        // The workload has just reached zero.
        sleep(Duration::from_millis(salt(cycle, worker) % SPREAD)).await;
        results.responses.extend(load(&namespace, &url).await?);
        let disturbs = cycle.is_multiple_of(DISTURBED);
        let mut is_at_zero = false;
        if disturbs {
            let moment = SEQUENCE + Duration::from_millis(salt(cycle, worker) % SEQUENCE_SPREAD);
            is_at_zero = until_sequence(&workload, moment, &mut timeline, &mut results.entries).await?;
        }
        if disturbs && !is_at_zero {
            results.responses.extend(load(&namespace, &url).await?);
        }
        if !is_at_zero {
            until(&mut timeline, &mut results.entries, reached_zero)
                .await
                .with_context(|| format!("cycle {cycle} of {}", workload.name))?;
        }
        results.cycles += 1;
    }
    Ok(results)
}

async fn load(namespace: &TestNamespace, url: &str) -> Result<Vec<Response>> {
    Load::rate(url, RATE, LOADED).run(namespace).await
}

/// A number that differs between cycles and between workloads.
fn salt(cycle: usize, worker: usize) -> u64 {
    cycle as u64 * 37 + worker as u64 * 101
}

/// Waits for a moment of the scale-to-zero sequence: the change of the route, or, without a
/// sidecar, whose route never changes, this time after the last request. Returns whether it reached
/// zero before.
async fn until_sequence(
    workload: &Workload,
    moment: Duration,
    timeline: &mut Timeline,
    entries: &mut Vec<TimelineEntry>,
) -> Result<bool> {
    if workload.sidecar != Sidecar::None {
        until(timeline, entries, is_proxied).await?;
        return Ok(false);
    }
    match timeout(moment, until(timeline, entries, reached_zero)).await {
        Ok(reached) => reached.map(|()| true),
        Err(_) => Ok(false),
    }
}

fn reached_zero(entry: &TimelineEntry) -> bool {
    matches!(entry.change, Change::Scaled { replicas: 0, .. })
}

fn is_proxied(entry: &TimelineEntry) -> bool {
    matches!(entry.change, Change::RouteChanged { mode: SksMode::Proxy, .. })
}

/// Waits for a change, and keeps all changes until then.
async fn until(
    timeline: &mut Timeline,
    entries: &mut Vec<TimelineEntry>,
    wanted: impl Fn(&TimelineEntry) -> bool,
) -> Result<()> {
    let waited = async {
        loop {
            let entry = timeline.next().await?;
            let found = wanted(&entry);
            entries.push(entry);
            if found {
                return Ok(());
            }
        }
    };
    timeout(TO_ZERO, waited).await.context("no such change within three minutes")?
}
