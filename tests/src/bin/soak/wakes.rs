//! What a wake takes beyond the start of its pod: wakes, and in turn bare starts of the same pod in a Deployment that is
//! nobody's.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::Client;
use system_tests::installation;
use system_tests::load::{self, Answer, Load};
use system_tests::namespace::{TestNamespace, pods_of};
use system_tests::timeline::{Happening, Timeline, now_ms};
use system_tests::wait;
use system_tests::workload::{Workload, scale, until_replicas};

use crate::report::Report;
use crate::writers::Sizes;

const UP: Duration = Duration::from_secs(60);
/// Until it sleeps after its one request, and its pod is gone.
const ASLEEP: Duration = Duration::from_secs(60);
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
    installation::set_grace_period(client, "1s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-wakes").await?;
    let sleeper = Workload { replicas: 0, ..Workload::new("sleeper") };
    let bare = Workload { replicas: 0, ..Workload::new("bare") };
    let mut happenings = Timeline::follow(&namespace, &sleeper.name);
    let mut bare_happenings = Timeline::follow(&namespace, &bare.name);
    sleeper.create(&namespace).await?;
    bare.create_deployment(&namespace).await?;
    let url = sleeper.url(&namespace).await?;
    let mut wakes = Wakes::default();
    for i in 0..sizes.wakes {
        at_rest(&namespace, &sleeper.name).await?;
        load::until_activators_answer(&url, &namespace, UP).await?;
        happenings.drain();
        let answer = load::one_answer(&url, &namespace).await.with_context(|| format!("wake {i}"))?;
        let patched = wakes.take(&answer, &mut happenings)?;

        let started = bare_start(&namespace, &bare.name, &mut bare_happenings).await?;
        wakes.bare.push(started);
        scale(&namespace, &bare.name, 0).await?;
        at_rest(&namespace, &bare.name).await?;
        println!(
            "  {} of {} wakes: {:.0} ms, /scale after {patched:.1} ms, bare {started:.0} ms",
            i + 1,
            sizes.wakes,
            answer.ms
        );
    }
    wakes.tell(report);
    namespace.delete().await
}

/// Waits until it is at zero and its last pod is gone, so that nothing but the next start has work to do.
async fn at_rest(namespace: &TestNamespace, name: &str) -> Result<()> {
    until_replicas(namespace, name, |replicas| replicas == 0, ASLEEP).await?;
    wait::until("no pod", ASLEEP, || async { Ok(pods_of(namespace, name).await?.is_empty().then_some(())) })
        .await
}

/// Milliseconds from the patch to the pod's first answer at its own address.
async fn bare_start(namespace: &TestNamespace, name: &str, happenings: &mut Timeline) -> Result<f64> {
    happenings.drain();
    let patched = now_ms();
    scale(namespace, name, 1).await?;
    seen(happenings, |what| matches!(what, Happening::Addressed(_))).await?;
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

/// Waits until this is seen.
async fn seen(happenings: &mut Timeline, wanted: impl Fn(&Happening) -> bool) -> Result<()> {
    let waited = async {
        loop {
            if wanted(&happenings.next().await?.what) {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(UP, waited).await.context("not seen within a minute")?
}

// === impl Wakes ===

impl Wakes {
    /// Takes in a wake; what it returns is the time until `/scale` was patched.
    fn take(&mut self, answer: &Answer, happenings: &mut Timeline) -> Result<f64> {
        ensure!(answer.started_ms > answer.sent_ms, "the answer is not of a new pod: {answer:?}");
        let sizes = Sizes::of(&happenings.drain());
        let patched = sizes.reached(1).context("no new size was seen")? - answer.sent_ms;
        ensure!(sizes.changes() == 1, "one wake, and these sizes: {sizes:?}");
        self.patched.push(patched);
        // By the app's own word: the kubelet tells of its containers later than callers have their answers.
        self.after_start.push(answer.sent_ms + answer.ms - answer.started_ms);
        self.whole.push(answer.ms);
        Ok(patched)
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
