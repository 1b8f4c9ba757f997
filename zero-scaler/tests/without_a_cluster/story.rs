//! The life of one workload: adopted while it serves, put to zero, woken. With as many zero-scalers as a test wants, which start
//! anew when they are lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::stats::{Push, Stat, StatMessage};
use autoscaler::{Decision, DecisionEvent, Key};
use clap::Parser;
use prometheus::Registry;
use runtime::kubernetes::lease::Leadership;
use runtime::readiness::Readiness;
use simulator::hpa::Behavior;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zero_scaler::app::{ExternalInterfaces, controllers};
use zero_scaler::args::Args;
use zero_scaler::metrics::Metrics;
use zero_scaler::{clock::Clock, controllers::context::Context};

use crate::cluster::{AUTOSCALER, Cluster, SERVERLESS_SERVICE, TARGET};
use crate::stock_hpa::StockHpa;

/// When every story begins, in Unix milliseconds.
const BEGIN: i64 = 1_790_000_000_000;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// As the metrics-adapter does.
const REPEAT_EVERY: Duration = Duration::from_secs(10);
/// Nothing was written for so long.
const QUIET: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(300);

pub(crate) struct Story {
    pub(crate) cluster: Cluster,
    zero_scalers: Vec<ZeroScaler>,
    /// More arguments of every process.
    args: &'static [&'static str],
    decision: Decision,
    hpa: Option<StockHpa>,
    began: Instant,
    said: Instant,
    /// How often a process was lost.
    pub(crate) lost: usize,
}

/// A process. It is lost when this is dropped.
struct ZeroScaler {
    context: Arc<Context>,
    _tasks: JoinSet<()>,
}

// === impl Story ===

impl Story {
    /// A workload that is busy, and so many zero-scalers, each of which believes that it leads.
    pub(crate) fn begin(zero_scalers: usize) -> Self {
        Self::begin_with(zero_scalers, &[])
    }

    /// The same with these arguments.
    pub(crate) fn begin_with(zero_scalers: usize, args: &'static [&'static str]) -> Self {
        let now = Instant::now();
        let decision = decision(1, None);
        let mut story = Self {
            cluster: Cluster::new(),
            zero_scalers: Vec::new(),
            args,
            decision,
            hpa: None,
            began: now,
            said: now,
            lost: 0,
        };
        (0..zero_scalers).for_each(|_| story.start());
        story
    }

    /// The same with one zero-scaler, at zero by now.
    pub(crate) async fn sleeping() -> Self {
        let mut story = Self::begin(1);
        story.serving().await;
        story.at_zero().await;
        story
    }

    /// One that is busy, with one zero-scaler and an HPA that has these bounds, which somebody follows.
    pub(crate) fn with_hpa(min: i32, max: i32, behavior: Option<Behavior>) -> Self {
        let mut story = Self::begin(1);
        story.hpa = Some(StockHpa::new(&story.cluster, min, max, behavior));
        story
    }

    /// From the user's objects to zero and back.
    pub(crate) async fn tell(&mut self) {
        self.serving().await;
        self.at_zero().await;
        self.say(2, None);
        self.until("it is awake", |cluster| cluster.size() == 2).await;
        self.serving().await;
    }

    /// Until requests go to its pods, and nothing is left to do.
    pub(crate) async fn serving(&mut self) {
        self.until("it serves", |cluster| cluster.field(SERVERLESS_SERVICE, "/status/mode") == "Serve").await;
        self.settle().await;
    }

    /// Until it sleeps, and nothing is left to do.
    pub(crate) async fn at_zero(&mut self) {
        self.idle();
        self.until("it sleeps", |cluster| {
            cluster.field(AUTOSCALER, "/status/replicas") == 0 && cluster.size() == 0
        })
        .await;
        self.settle().await;
    }

    /// From now on the adapter says this.
    pub(crate) fn say(&mut self, desired: u32, idle_since: Option<i64>) {
        self.decision = decision(desired, idle_since);
        self.repeat();
    }

    /// From now on it says that nobody asks.
    pub(crate) fn idle(&mut self) {
        self.say(0, Some(BEGIN));
    }

    /// An activator holds a request.
    pub(crate) fn poke(&self) {
        let stat = Stat { average_concurrent_requests: 1.0, ..Stat::default() };
        let messages = vec![StatMessage { key: Key::new("shop", "web"), stat }];
        let push = Push { activator: "activator".to_owned(), messages, ..Push::default() };
        for zero_scaler in &self.zero_scalers {
            zero_scaler.context.wake.receive(push.clone(), Instant::now().into_std());
        }
    }

    /// From now on it panics: it wants more than the stable average would need.
    pub(crate) fn panic(&mut self, desired: u32, stable: f64) {
        let panic = f64::from(desired) * 10.0;
        self.decision = Decision { panicking: true, held: true, stable, panic, ..decision(desired, None) };
        self.repeat();
    }

    pub(crate) async fn until(&mut self, what: &str, reached: impl Fn(&Cluster) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !reached(&self.cluster) {
            self.step().await;
            if Instant::now() > deadline {
                panic!("not in time: {what}: {:#?}", self.cluster.end_state());
            }
        }
    }

    /// Lets so much time pass.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step().await;
        }
    }

    pub(crate) async fn settle(&mut self) {
        let (mut seen, mut since) = (self.cluster.api.requests().len(), Instant::now());
        let deadline = since + DEADLINE;
        while since.elapsed() < QUIET {
            self.step().await;
            let new = self.cluster.api.requests_since(seen);
            seen += new.len();
            if new.iter().any(|request| !request.starts_with("GET ")) {
                since = Instant::now();
            }
            assert!(Instant::now() < deadline, "it writes and writes: {new:#?}");
        }
    }

    async fn step(&mut self) {
        sleep(LOOK_AGAIN).await;
        if self.cluster.api.is_hanging() {
            let lost = self.zero_scalers.len();
            self.zero_scalers.clear();
            self.cluster.api.set_outage(None);
            (0..lost).for_each(|_| self.start());
            self.lost += 1;
        }
        if self.said.elapsed() > REPEAT_EVERY {
            self.repeat();
        }
        let metric = self.metric();
        if let Some(hpa) = &mut self.hpa {
            hpa.sync(&self.cluster, metric);
        }
    }

    fn repeat(&mut self) {
        self.said = Instant::now();
        let now = self.clock().now().as_millisecond();
        for zero_scaler in &self.zero_scalers {
            zero_scaler.receive(Decision { decided_at: now, ..self.decision.clone() });
        }
    }

    /// What the adapter tells an HPA, in thousandths: the average, and no less than what it holds.
    fn metric(&self) -> i64 {
        let held = if self.decision.held { i64::from(self.decision.desired) * TARGET * 1000 } else { 0 };
        held.max((self.decision.stable * 1000.0) as i64)
    }

    fn start(&mut self) {
        let all = ["zero-scaler", "--open-stats-port"].iter().chain(self.args);
        let args = Args::parse_from(all);
        let edges = ExternalInterfaces {
            client: self.cluster.api.client(),
            clock: self.clock(),
            prober: Arc::new(self.cluster.network()),
        };
        let (mut tasks, readiness) = (JoinSet::new(), Readiness::default());
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let context =
            controllers(&args, edges, &Leadership::always_leading(), metrics, &readiness, &mut tasks);
        self.zero_scalers.push(ZeroScaler { context, _tasks: tasks });
        self.repeat();
    }

    /// Wall time that passes as the paused clock does.
    fn clock(&self) -> Clock {
        let began = self.began;
        Clock::by(move || {
            let passed = i64::try_from(began.elapsed().as_millis()).unwrap();
            jiff::Timestamp::from_millisecond(BEGIN + passed).unwrap()
        })
    }
}

// === impl ZeroScaler ===

impl ZeroScaler {
    fn receive(&self, decision: Decision) {
        let adapter = SocketAddr::from(([10, 0, 8, 8], 8080));
        self.context.decisions.receive(adapter, DecisionEvent::Decided(decision), Instant::now().into_std());
    }
}

fn decision(desired: u32, idle_since: Option<i64>) -> Decision {
    Decision {
        key: Key::new("shop", "web"),
        desired,
        panicking: false,
        held: false,
        excess_burst_capacity: if desired > 0 { 10 } else { -211 },
        stable: f64::from(desired) * 10.0,
        panic: f64::from(desired) * 10.0,
        ready: desired,
        idle_since,
        decided_at: BEGIN,
    }
}
