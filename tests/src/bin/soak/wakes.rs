//! What a wake takes beyond the start of its pod: wakes and bare starts of the same pod, in turn.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use system_tests::installation;
use system_tests::load::{self, Answer, Load};
use system_tests::namespace::{TestNamespace, pods_of};
use system_tests::timeline::{Happening, Timeline, now_ms};
use system_tests::wait;
use system_tests::workload::{Workload, replicas, scale};
use tokio::time::sleep;

use crate::report::Report;
use crate::writers::Sizes;

const UP: Duration = Duration::from_secs(60);
/// Until it is put to zero once more.
const AGAIN: Duration = Duration::from_secs(1);
/// Knocks at a bare pod's door, a second.
const KNOCKS: f64 = 200.0;
const KNOCKING: Duration = Duration::from_secs(3);
/// The sidecar's port, where a bare pod answers.
const DOOR: u16 = autoscaler::contract::QUEUE_PROXY_PORT;

/// Milliseconds of each wake.
#[derive(Default)]
struct Wakes {
    patched: Vec<f64>,
    after_start: Vec<f64>,
    whole: Vec<f64>,
    /// From the patch to the first answer, without us.
    bare: Vec<f64>,
}

pub(crate) async fn run(client: &Client, sizes: &crate::Sizes, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "30s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-wakes").await?;
    // Never more than one pod: the knocks at a bare one that starts slowly may be a panic, and the wake after them would be for two.
    let workload =
        Workload { replicas: 0, max_replicas: 1, ..Workload::new("sleeper") }.annotated("window", "60s");
    let mut timeline = Timeline::follow(&namespace, &workload.name);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    let mut wakes = Wakes::default();
    for i in 0..sizes.wakes {
        asleep(&namespace, &workload.name, &url).await?;
        timeline.drain();
        let answer = load::one_answer(&url, &namespace).await.with_context(|| format!("wake {i}"))?;
        wakes.take(&answer, &mut timeline)?;

        asleep(&namespace, &workload.name, &url).await?;
        timeline.drain();
        wakes.bare.push(bare_start(&namespace, &workload.name, &mut timeline).await?);
        println!(
            "  {} of {} wakes: {:.0} ms, bare {:.0} ms",
            i + 1,
            sizes.wakes,
            answer.ms,
            wakes.bare.last().unwrap_or(&f64::NAN)
        );
    }
    wakes.tell(report);
    namespace.delete().await
}

/// Puts it to zero, and waits until activators and nobody else answer. While its last requests are not a second old it is woken
/// for them, so that it may have to be put to zero again.
async fn asleep(namespace: &TestNamespace, name: &str, url: &str) -> Result<()> {
    wait::until("no pod and an activator in the path", UP, || async {
        if replicas(namespace, name).await? > 0 {
            scale(namespace, name, 0).await?;
            sleep(AGAIN).await;
            return Ok(None);
        }
        if !pods_of(namespace, name).await?.is_empty() {
            return Ok(None);
        }
        Ok(load::activators_answer(url, namespace).await?.then_some(()))
    })
    .await
}

/// Milliseconds from the patch to the pod's first answer at its own address.
async fn bare_start(namespace: &TestNamespace, name: &str, timeline: &mut Timeline) -> Result<f64> {
    let patched = now_ms();
    scale(namespace, name, 1).await?;
    seen(timeline, |what| matches!(what, Happening::Addressed(_))).await?;
    let pods = pods_of(namespace, name).await?;
    let ip =
        pods.iter().find_map(|pod| pod.status.as_ref()?.pod_ip.clone()).context("no pod has an address")?;
    let mut knocks = Load::rate(&format!("http://{ip}:{DOOR}/"), KNOCKS, KNOCKING).start(namespace).await?;
    while let Some(answer) = knocks.next().await {
        if answer.status == 200 {
            return Ok(answer.sent_ms + answer.ms - patched);
        }
    }
    bail!("the bare pod did not answer within {KNOCKING:?}")
}

/// The moment at which this was seen.
async fn seen(timeline: &mut Timeline, wanted: impl Fn(&Happening) -> bool) -> Result<f64> {
    let waited = async {
        loop {
            let entry = timeline.next().await?;
            if wanted(&entry.what) {
                return Ok(entry.at_ms);
            }
        }
    };
    tokio::time::timeout(UP, waited).await.context("not seen within a minute")?
}

// === impl Wakes ===

impl Wakes {
    fn take(&mut self, answer: &Answer, timeline: &mut Timeline) -> Result<()> {
        ensure!(answer.started_ms > answer.sent_ms, "the answer is not of a new pod: {answer:?}");
        let sizes = Sizes::of(&timeline.drain());
        let patched = sizes.reached(1).context("no new size was seen")?;
        ensure!(sizes.changes() == 1, "one wake, and these sizes: {sizes:?}");
        self.patched.push(patched - answer.sent_ms);
        // By the app's own word: the kubelet tells of its containers later than callers have their answers.
        self.after_start.push(answer.sent_ms + answer.ms - answer.started_ms);
        self.whole.push(answer.ms);
        Ok(())
    }

    fn tell(&self, report: &mut Report) {
        let q = |values: &[f64], share| load::quantile(values, share);
        report.time("request to /scale, p50", q(&self.patched, 0.5), 10.0);
        report.time("request to /scale, p99", q(&self.patched, 0.99), 60.0);
        report.time("app started to answer, p50", q(&self.after_start, 0.5), 20.0);
        report.time("app started to answer, p90", q(&self.after_start, 0.9), 50.0);
        let [whole, bare] = [&self.whole, &self.bare].map(|values| q(values, 0.5));
        report.time("wake beyond the bare start, p50", whole - bare, 30.0);
        report.note(
            "wake, p50, p90, max",
            format!("{whole:.0}, {:.0}, {:.0} ms", q(&self.whole, 0.9), q(&self.whole, 1.0)),
        );
        report.note("bare start, p50, p90", format!("{bare:.0}, {:.0} ms", q(&self.bare, 0.9)));
    }
}
