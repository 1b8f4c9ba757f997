//! Scenario: an app with a known knee, and user's targets four times too low and four times too
//! high. Measures where the learned target and the stock HPA end, and that a recommendation changes
//! no size.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use autoscaler::settings::LearnTarget;
use futures::future::try_join_all;
use kube::Client;
use serde_json::Value;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::{Timeline, now_ms};
use system_tests::traffic::learning::{learning, number};
use system_tests::traffic::load::{self, Load, Response};
use system_tests::workloads::workload::{Workload, replicas};
use tokio::time::{MissedTickBehavior, interval};

use crate::args::Lengths;
use crate::report::Report;
use crate::size_changes::{SizeChanges, UNEXPECTED_WRITERS};

/// Requests that a pod serves at a time: more of them wait in the app.
const SERVERS: u32 = 8;
/// Accepted distance of the target to the knee, as a share of the knee.
const DISTANCE: f64 = 0.2;
/// Requests at a time: six pods at the knee. One fewer than a multiple of the targets, because the
/// seconds of pods begin at different times, and their sum may be a little more. Each request takes
/// so long that the four loads together leave most of a small machine idle.
const CLIENTS: u32 = 47;
const WORK: Duration = Duration::from_millis(400);
/// One and a half times the work.
const OBJECTIVE: &str = "600ms@p95";
const OBJECTIVE_MS: f64 = 600.0;
const PERCENTILE: f64 = 0.95;
/// End of the load in which the objective must be kept.
const END_MS: f64 = 120_000.0;
const UP: Duration = Duration::from_secs(60);
const PROGRESS: Duration = Duration::from_secs(60);

pub(crate) async fn run(client: &Client, lengths: &Lengths, report: &mut Report) -> Result<()> {
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-learning").await?;
    let workloads = [LearnTarget::Apply, LearnTarget::Recommend].into_iter().flat_map(|mode| {
        [SERVERS / 4, SERVERS * 4].map(|user_target| LearningWorkload { mode, user_target })
    });
    let runs = workloads.map(|workload| LearningRun::of(&namespace, workload, lengths));
    for run in try_join_all(runs).await? {
        run.add_to(report);
    }
    namespace.delete().await
}

#[derive(Clone, Copy, Debug)]
struct LearningWorkload {
    mode: LearnTarget,
    user_target: u32,
}

/// What a workload's load resulted in.
struct LearningRun {
    workload: LearningWorkload,
    responses: Vec<Response>,
    /// At the end.
    in_force: f64,
    size: i32,
    sizes: SizeChanges,
}

// === impl LearningWorkload ===

impl LearningWorkload {
    fn name(self) -> String {
        format!("{:?}-{}", self.mode, self.user_target).to_lowercase()
    }

    fn objects(self, lengths: &Lengths) -> Workload {
        let (target, servers) = (self.user_target.to_string(), Some(SERVERS));
        Workload { target, servers, max_replicas: 30, ..lengths.workload(&self.name()) }
            .annotated("window", "60s")
            .annotated("scale-to-zero", "false")
            .annotated("learn-target", &format!("{:?}", self.mode))
            .annotated("latency-objective", OBJECTIVE)
    }

    /// The size for the user's target.
    fn users_size(self) -> u32 {
        CLIENTS.div_ceil(self.user_target)
    }
}

impl fmt::Display for LearningWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, target {}", self.mode, self.user_target)
    }
}

// === impl LearningRun ===

impl LearningRun {
    /// Applies the workload and sends its load.
    async fn of(namespace: &TestNamespace, workload: LearningWorkload, lengths: &Lengths) -> Result<Self> {
        let (objects, name) = (workload.objects(lengths), workload.name());
        let mut timeline = Timeline::follow(namespace, &name);
        objects.create(namespace).await?;
        let url = objects.url(namespace).await?;
        load::until_first_response(&url, namespace, UP).await?;
        let length = Duration::from_secs(60 * lengths.learning_minutes);
        let load = Load::concurrency(&url, CLIENTS, WORK, length);
        let responses = tokio::select! {
            responses = load.run(namespace) => responses?,
            never = print_progress(namespace, workload) => match never {},
        };
        let in_force = number(&learning(namespace, &name).await?, "/targetInForce")?;
        let size = replicas(namespace, &name).await?;
        Ok(Self { workload, responses, in_force, size, sizes: SizeChanges::of(&timeline.drain()) })
    }

    fn add_to(&self, report: &mut Report) {
        let Self { workload, .. } = self;
        let of = |what: &str| format!("{what}, {workload}");
        let failed = self.responses.iter().filter(|response| response.status != 200).count();
        report.note(&of("requests"), self.responses.len().to_string());
        report.count(&of("responses other than 200"), failed, 0);
        report.count(&of(UNEXPECTED_WRITERS), self.sizes.by_unexpected_writers(), 0);
        report.note(&of("writers of the size"), self.sizes.writers());
        if workload.mode == LearnTarget::Apply {
            report.note(&of("pods at the end"), self.size.to_string());
            report.ratio(&of("distance of the target to the knee"), self.distance(), DISTANCE);
            report.time(&of("p95 of the last two minutes"), self.latency_at_end(), OBJECTIVE_MS);
        } else {
            let users_size = i64::from(workload.users_size());
            report.exactly(&of("pods at the end"), i64::from(self.size), users_size);
            report.exactly(&of("largest size"), i64::from(self.sizes.largest()), users_size);
        }
    }

    fn distance(&self) -> f64 {
        (self.in_force / f64::from(SERVERS) - 1.0).abs()
    }

    /// The latency at the objective's percentile at the end of the load, in milliseconds.
    fn latency_at_end(&self) -> f64 {
        let last = self.responses.iter().map(|response| response.sent_ms).fold(0.0, f64::max);
        let at_end = self.responses.iter().filter(|response| response.sent_ms >= last - END_MS);
        load::quantile(&at_end.map(|response| response.ms).collect::<Vec<_>>(), PERCENTILE)
    }
}

/// Prints the learned target each minute, without an end.
async fn print_progress(namespace: &TestNamespace, workload: LearningWorkload) -> Infallible {
    let (began, mut minutes) = (now_ms(), interval(PROGRESS));
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        minutes.tick().await;
        let learned = match learning(namespace, &workload.name()).await {
            Ok(learning) => summary(&learning),
            Err(error) => format!("{error:#}"),
        };
        println!("  {:4.0} s  {workload}: {learned}", (now_ms() - began) / 1000.0);
    }
}

fn summary(learning: &Value) -> String {
    let field = |name: &str| learning.pointer(name).map(Value::to_string).unwrap_or_default();
    let (target, phase) = (field("/learned/target"), field("/learned/phase"));
    format!("learned {target}, {phase}, {}", field("/learned/evidence"))
}
