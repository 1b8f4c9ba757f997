//! Zero and back, again and again: each time requests come at another moment of the way down.

use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::api::Mode;
use kube::Client;
use system_tests::installation;
use system_tests::load::{Answer, Load, until_activators_answer};
use system_tests::namespace::TestNamespace;
use system_tests::timeline::{Entry, Happening, Timeline};
use system_tests::workload::Workload;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::report::Report;
use crate::writers::{BY_STRANGERS, Conduct, Sizes, UNTOLD};

/// Requests a second, each on a connection of its own.
const RATE: f64 = 20.0;
const LOADED: Duration = Duration::from_secs(2);
/// Until a Service that was just made leads to somebody.
const REACHED: Duration = Duration::from_secs(30);
/// Until it sleeps after the last request.
const TO_ZERO: Duration = Duration::from_secs(180);
/// Requests begin up to so many milliseconds after a moment, another one each time.
const SPREAD: u64 = 700;
/// Each so manyth cycle is disturbed on its way down.
const DISTURBED: usize = 4;

/// What one workload went through.
#[derive(Default)]
struct Lived {
    cycles: usize,
    answers: Vec<Answer>,
    entries: Vec<Entry>,
}

pub(crate) async fn run(client: &Client, sizes: &crate::Sizes, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "1s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-cycles").await?;
    let each = sizes.cycles.div_ceil(sizes.cyclers);
    let mut workers = JoinSet::new();
    for worker in 0..sizes.cyclers {
        workers.spawn(cycle(namespace.clone(), worker, each));
    }
    let mut lived = Lived::default();
    let (mut changes, mut conduct) = (0, Conduct::default());
    while let Some(worker) = workers.join_next().await {
        let one = worker??;
        let sizes = Sizes::of(&one.entries);
        changes += sizes.changes();
        conduct += sizes.conduct();
        lived.cycles += one.cycles;
        lived.answers.extend(one.answers);
    }
    let failed: Vec<&Answer> = lived.answers.iter().filter(|answer| answer.status != 200).collect();
    failed.iter().take(5).for_each(|answer| println!("  {answer:?}"));
    report.note("requests", lived.answers.len().to_string());
    report.note("cycles", lived.cycles.to_string());
    report.count("answers other than 200", failed.len(), 0);
    // Down and up again, and nothing else.
    report.count("changes of the size", changes, 2 * lived.cycles + sizes.cyclers);
    report.count(BY_STRANGERS, conduct.by_strangers, 0);
    // The last of each may be told when nobody listens any more.
    report.count(UNTOLD, conduct.untold, sizes.cyclers);
    report.count("sizes taken back, but for wakes", conduct.flip_flops.saturating_sub(lived.cycles), 0);
    namespace.delete().await
}

async fn cycle(namespace: TestNamespace, worker: usize, cycles: usize) -> Result<Lived> {
    // Without spare capacity to keep, callers reach the pods by themselves while there are any: each way there and back is gone.
    let workload = Workload { replicas: 0, max_replicas: 1, ..Workload::new(&format!("w{worker}")) }
        .annotated("target-burst-capacity", "0");
    let mut timeline = Timeline::follow(&namespace, &workload.name);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    let mut lived = Lived::default();
    until(&mut timeline, &mut lived.entries, is_proxied).await?;
    // kube-proxy refuses connections to a Service whose first endpoints it has not taken up yet.
    until_activators_answer(&url, &namespace, REACHED).await?;
    for cycle in 0..cycles {
        // A moment after the one of interest: the workload has just gone to zero.
        sleep(Duration::from_millis((cycle as u64 * 37 + worker as u64 * 101) % SPREAD)).await;
        lived.answers.extend(load(&namespace, &url).await?);
        if cycle.is_multiple_of(DISTURBED) {
            until(&mut timeline, &mut lived.entries, is_proxied).await?;
            lived.answers.extend(load(&namespace, &url).await?);
        }
        let asleep = |entry: &Entry| matches!(entry.what, Happening::Scaled { replicas: 0, .. });
        until(&mut timeline, &mut lived.entries, asleep)
            .await
            .with_context(|| format!("cycle {cycle} of {}", workload.name))?;
        lived.cycles += 1;
    }
    Ok(lived)
}

async fn load(namespace: &TestNamespace, url: &str) -> Result<Vec<Answer>> {
    Load::rate(url, RATE, LOADED).run(namespace).await
}

fn is_proxied(entry: &Entry) -> bool {
    matches!(entry.what, Happening::Switched { mode: Mode::Proxy, .. })
}

/// Waits for something to happen, and keeps all that happens meanwhile.
async fn until(
    timeline: &mut Timeline,
    entries: &mut Vec<Entry>,
    wanted: impl Fn(&Entry) -> bool,
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
    timeout(TO_ZERO, waited).await.context("not within three minutes")?
}
