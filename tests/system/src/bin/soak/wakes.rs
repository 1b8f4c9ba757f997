//! Scenario: what a wake takes beyond the start of its pod. Wakes alternate with starts of the same
//! pod in a Deployment that Rouse does not manage.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::contract::QUEUE_PROXY_PORT;
use kube::Client;
use system_tests::cluster::installation;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::timeline::{Change, Timeline, now_ms};
use system_tests::traffic::load::{self, Load, Response};
use system_tests::wait;
use system_tests::workloads::workload::{Sidecar, Workload, scale, until_replicas};

use crate::report::Report;
use crate::size_changes::SizeChanges;

const UP: Duration = Duration::from_secs(60);
/// Time to reach zero after its one request, until its pod is gone.
const AT_ZERO: Duration = Duration::from_secs(60);
/// Requests a second to an unmanaged pod that is starting.
const PROBE_RATE: f64 = 200.0;
const PROBE_DURATION: Duration = Duration::from_secs(3);
/// The sample app's port.
const APP_PORT: u16 = 8080;
/// Time before the app of a slow start listens.
const SLOW_START: Duration = Duration::from_millis(300);

/// Milliseconds of each wake.
#[derive(Default)]
struct Wakes {
    patched: Vec<f64>,
    after_start: Vec<f64>,
    whole: Vec<f64>,
    /// From the patch of `/scale` to the first response, without Rouse.
    bare: Vec<f64>,
}

/// With the same pods on both sides, in the mode of this run.
pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    let (managed, bare) = (lengths.workload("managed"), lengths.workload("bare"));
    let excess_ms = if lengths.sidecar { 30.0 } else { 20.0 };
    let wakes = alternate(client, lengths.wakes, managed, bare).await?;
    wakes.add_to(report, excess_ms);
    Ok(())
}

/// The sidecar starts behind the app, and the pods of the other side have none.
pub(crate) async fn run_app_first(
    client: &Client,
    lengths: &crate::args::Lengths,
    report: &mut Report,
) -> Result<()> {
    let workload = |name, sidecar| Workload { sidecar, start: SLOW_START, ..Workload::new(name) };
    let (managed, bare) = (workload("managed", Sidecar::AppFirst), workload("bare", Sidecar::None));
    alternate(client, lengths.wakes, managed, bare).await?.add_excess_to(report, 20.0);
    Ok(())
}

async fn alternate(client: &Client, count: usize, managed: Workload, bare: Workload) -> Result<Wakes> {
    installation::set_grace_period(client, "1s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-wakes").await?;
    let [managed, bare] = [managed, bare].map(|workload| Workload { replicas: 0, ..workload });
    let mut timeline = Timeline::follow(&namespace, &managed.name);
    let mut bare_timeline = Timeline::follow(&namespace, &bare.name);
    managed.create(&namespace).await?;
    bare.create_deployment(&namespace).await?;
    let url = managed.url(&namespace).await?;
    let mut wakes = Wakes::default();
    for i in 0..count {
        until_at_zero(&namespace, &managed.name).await?;
        load::until_activators_respond(&url, &namespace, UP).await?;
        timeline.drain();
        let response = load::send_one_request(&url, &namespace).await.with_context(|| format!("wake {i}"))?;
        let patched = wakes.add(&response, &mut timeline)?;

        let started = bare_start(&namespace, &bare, &mut bare_timeline).await?;
        wakes.bare.push(started);
        scale(&namespace, &bare.name, 0).await?;
        until_at_zero(&namespace, &bare.name).await?;
        println!(
            "  {} of {} wakes: {:.0} ms, /scale after {patched:.1} ms, bare pod start {started:.0} ms",
            i + 1,
            count,
            response.ms
        );
    }
    namespace.delete().await?;
    Ok(wakes)
}

/// Waits until it is at zero and its last pod is gone, so that only the next start loads the
/// machine.
async fn until_at_zero(namespace: &TestNamespace, name: &str) -> Result<()> {
    until_replicas(namespace, name, |replicas| replicas == 0, AT_ZERO).await?;
    wait::until("no pod", AT_ZERO, || async { Ok(pods_of(namespace, name).await?.is_empty().then_some(())) })
        .await
}

/// Milliseconds from the patch to the pod's first response at its own address.
async fn bare_start(namespace: &TestNamespace, bare: &Workload, timeline: &mut Timeline) -> Result<f64> {
    timeline.drain();
    let patched = now_ms();
    scale(namespace, &bare.name, 1).await?;
    until_change(timeline, |change| matches!(change, Change::PodAddressed(_))).await?;
    let pods = pods_of(namespace, &bare.name).await?;
    let ip =
        pods.iter().find_map(|pod| pod.status.as_ref()?.pod_ip.clone()).context("no pod has an address")?;
    let port = if bare.sidecar == Sidecar::None { APP_PORT } else { QUEUE_PROXY_PORT };
    let mut probes =
        Load::rate(&format!("http://{ip}:{port}/"), PROBE_RATE, PROBE_DURATION).start(namespace).await?;
    while let Some(response) = probes.next().await {
        if response.status == 200 {
            return Ok(response.sent_ms + response.ms - patched);
        }
    }
    bail!("the bare pod sent no response within {PROBE_DURATION:?}")
}

/// Waits for a change.
async fn until_change(timeline: &mut Timeline, wanted: impl Fn(&Change) -> bool) -> Result<()> {
    let waited = async {
        loop {
            if wanted(&timeline.next().await?.change) {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(UP, waited).await.context("no such change within a minute")?
}

// === impl Wakes ===

impl Wakes {
    /// Adds a wake; returns the milliseconds until `/scale` was patched.
    fn add(&mut self, response: &Response, timeline: &mut Timeline) -> Result<f64> {
        ensure!(response.started_ms > response.sent_ms, "the response is not from a new pod: {response:?}");
        let sizes = SizeChanges::of(&timeline.drain());
        let patched = sizes.reached(1).context("spec.replicas did not change")? - response.sent_ms;
        ensure!(sizes.changes() == 1, "more than one change of size: {sizes:?}");
        self.patched.push(patched);
        // By the app's own clock, because the kubelet reports started containers only after clients
        // have their responses.
        self.after_start.push(response.sent_ms + response.ms - response.started_ms);
        self.whole.push(response.ms);
        Ok(patched)
    }

    fn add_to(&self, report: &mut Report, excess_ms: f64) {
        let q = |values: &[f64], share| load::quantile(values, share);
        report.time("request to /scale, p50", q(&self.patched, 0.5), 10.0);
        report.time("request to /scale, p99", q(&self.patched, 0.99), 60.0);
        report.time("app start to response, p50", q(&self.after_start, 0.5), 20.0);
        report.time("app start to response, p90", q(&self.after_start, 0.9), 50.0);
        self.add_excess_to(report, excess_ms);
    }

    fn add_excess_to(&self, report: &mut Report, excess_ms: f64) {
        let q = |values: &[f64], share| load::quantile(values, share);
        let [whole, bare] = [&self.whole, &self.bare].map(|values| q(values, 0.5));
        report.time("wake, excess over the bare pod start, p50", whole - bare, excess_ms);
        report.note(
            "wake, p50, p90, max",
            format!("{whole:.0}, {:.0}, {:.0} ms", q(&self.whole, 0.9), q(&self.whole, 1.0)),
        );
        report.note("bare pod start, p50, p90", format!("{bare:.0}, {:.0} ms", q(&self.bare, 0.9)));
    }
}
