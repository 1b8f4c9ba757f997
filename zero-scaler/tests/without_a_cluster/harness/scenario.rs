//! A scenario: one workload with its zero-scalers, from adoption to zero and back. Zero-scalers
//! restart when the API simulates a crash.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::learning_report::LearningReport;
use autoscaler::stats::{ActivatorReport, CarriedWorkloads, Stat, StatMessage};
use autoscaler::{Decision, DecisionEvent, Key};
use clap::Parser;
use component_base::auth::TokenGuard;
use component_base::kubernetes::lease::Leadership;
use component_base::readiness::Readiness;
use prometheus::Registry;
use simulator::hpa::Behavior;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use zero_scaler::app::{ExternalInterfaces, activator_connections, controllers};
use zero_scaler::args::Args;
use zero_scaler::metrics::Metrics;
use zero_scaler::reports::push_server;
use zero_scaler::{clock::Clock, controllers::context::Context};

use crate::harness::cluster::{AUTOSCALER, Cluster, SERVERLESS_SERVICE, TARGET};
use crate::harness::stock_hpa::StockHpa;

/// When every scenario begins, in Unix milliseconds.
const BEGIN: i64 = 1_790_000_000_000;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the metrics-adapter repeats decisions.
const REPEAT_EVERY: Duration = Duration::from_secs(10);
/// A period without writes after which the controllers count as settled.
const QUIET: Duration = Duration::from_secs(5);
const DEADLINE: Duration = Duration::from_secs(300);

pub(crate) struct Scenario {
    pub(crate) cluster: Cluster,
    zero_scalers: Vec<ZeroScaler>,
    /// Additional arguments of every process.
    args: &'static [&'static str],
    decision: Decision,
    /// What the adapter keeps the metric at, in pods.
    scheduled_minimum: i64,
    hpa: Option<StockHpa>,
    /// Activators that send no reports, by the names of their pods.
    pub(crate) silent: Vec<&'static str>,
    /// The workloads that the others report requests of.
    pub(crate) carried: CarriedWorkloads,
    began: Instant,
    sent_at: Instant,
    /// Number of simulated crashes.
    pub(crate) crashes: usize,
}

/// A zero-scaler process. It crashes when this is dropped.
struct ZeroScaler {
    context: Arc<Context>,
    _tasks: JoinSet<()>,
}

// === impl Scenario ===

impl Scenario {
    /// A workload with load, and this many zero-scalers, each of which holds leadership.
    pub(crate) fn new(zero_scalers: usize) -> Self {
        Self::with_args(zero_scalers, &[])
    }

    /// The same with additional arguments.
    pub(crate) fn with_args(zero_scalers: usize, args: &'static [&'static str]) -> Self {
        let now = Instant::now();
        let decision = decision(1, None);
        let mut scenario = Self {
            cluster: Cluster::new(),
            zero_scalers: Vec::new(),
            args,
            decision,
            scheduled_minimum: 0,
            hpa: None,
            silent: Vec::new(),
            carried: CarriedWorkloads::none(),
            began: now,
            sent_at: now,
            crashes: 0,
        };
        (0..zero_scalers).for_each(|_| scenario.start());
        scenario
    }

    /// A workload at zero with one zero-scaler.
    pub(crate) async fn at_zero() -> Self {
        let mut scenario = Self::new(1);
        scenario.until_serving().await;
        scenario.until_at_zero().await;
        scenario
    }

    /// A workload with load, one zero-scaler, and an HPA with these bounds that a simulated
    /// controller follows.
    pub(crate) fn with_hpa(min: i32, max: i32, behavior: Option<Behavior>) -> Self {
        let mut scenario = Self::new(1);
        scenario.hpa = Some(StockHpa::new(&scenario.cluster, min, max, behavior));
        scenario
    }

    /// From the user's objects to serving, to zero and back.
    pub(crate) async fn full_cycle(&mut self) {
        self.until_serving().await;
        self.until_at_zero().await;
        self.decide(2, None);
        self.until("two replicas", |cluster| cluster.size() == 2).await;
        self.until_serving().await;
    }

    /// Waits until requests go to the pods and the controllers have settled.
    pub(crate) async fn until_serving(&mut self) {
        self.until("mode Serve", |cluster| cluster.field(SERVERLESS_SERVICE, "/status/mode") == "Serve")
            .await;
        self.settle().await;
    }

    /// Removes the load, and waits until the workload is at zero and the controllers have settled.
    pub(crate) async fn until_at_zero(&mut self) {
        self.decide_idle();
        self.until("zero replicas", |cluster| {
            cluster.field(AUTOSCALER, "/status/replicas") == 0 && cluster.size() == 0
        })
        .await;
        self.settle().await;
    }

    /// Sets the adapter's decision from now on.
    pub(crate) fn decide(&mut self, desired: u32, idle_since: Option<i64>) {
        self.decision = decision(desired, idle_since);
        self.repeat();
    }

    /// Sets the minimum that the adapter's metric has by the schedule.
    pub(crate) fn set_scheduled_minimum(&mut self, pods: i64) {
        self.scheduled_minimum = pods;
    }

    /// Adds a report of learning to the decision, or removes it.
    pub(crate) fn learn(&mut self, report: Option<LearningReport>) {
        self.decision.learning = report.map(Box::new);
        self.repeat();
    }

    /// Sets the decision for a workload without requests.
    pub(crate) fn decide_idle(&mut self) {
        self.decide(0, Some(BEGIN));
    }

    /// Reports a held request, as an activator does.
    pub(crate) fn poke(&self) {
        let stat = Stat { average_concurrent_requests: 1.0, ..Stat::default() };
        let messages = vec![StatMessage { key: Key::new("shop", "web"), stat }];
        let push =
            ActivatorReport { activator: "activator".to_owned(), messages, ..ActivatorReport::default() };
        for zero_scaler in &self.zero_scalers {
            zero_scaler.context.scaling.wake.receive(push.clone(), Instant::now().into_std());
        }
    }

    /// Sets a panic decision of more pods than the stable average needs.
    pub(crate) fn decide_panic(&mut self, desired: u32, stable: f64) {
        let panic = f64::from(desired) * 10.0;
        self.decision = Decision { panicking: true, held: true, stable, panic, ..decision(desired, None) };
        self.repeat();
    }

    pub(crate) async fn until(&mut self, what: &str, reached: impl Fn(&Cluster) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !reached(&self.cluster) {
            self.step().await;
            if Instant::now() > deadline {
                panic!("timed out waiting for {what}: {:#?}", self.cluster.end_state());
            }
        }
    }

    /// Advances the clock.
    pub(crate) async fn advance(&mut self, time: Duration) {
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
            assert!(Instant::now() < deadline, "the controllers do not settle: {new:#?}");
        }
    }

    async fn step(&mut self) {
        sleep(POLL_INTERVAL).await;
        if self.cluster.api.is_hanging() {
            let running = self.zero_scalers.len();
            self.zero_scalers.clear();
            self.cluster.api.set_outage(None);
            (0..running).for_each(|_| self.start());
            self.crashes += 1;
        }
        if self.sent_at.elapsed() > REPEAT_EVERY {
            self.repeat();
        }
        for zero_scaler in &self.zero_scalers {
            let reporting = ["activator-0", "activator-1"].into_iter().filter(|it| !self.silent.contains(it));
            let reports = zero_scaler.context.routing.activators.reports();
            reporting.for_each(|name| reports.reported(name, self.carried.clone()));
        }
        let metric = self.metric();
        if let Some(hpa) = &mut self.hpa {
            hpa.sync(&self.cluster, metric);
        }
    }

    fn repeat(&mut self) {
        self.sent_at = Instant::now();
        let now = self.clock().now().as_millisecond();
        for zero_scaler in &self.zero_scalers {
            zero_scaler.receive(Decision { decided_at: now, ..self.decision.clone() });
        }
    }

    /// The adapter's metric for the HPA, in thousandths: the average, and at least what a panic
    /// holds and what the schedule requires.
    fn metric(&self) -> i64 {
        let held = if self.decision.held { i64::from(self.decision.desired) * TARGET * 1000 } else { 0 };
        let scheduled = self.scheduled_minimum * TARGET * 1000;
        held.max(scheduled).max((self.decision.stable * 1000.0) as i64)
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

    /// Ends every process and starts one.
    pub(crate) fn restart(&mut self) {
        self.zero_scalers.clear();
        self.start();
    }

    /// Ends every process.
    pub(crate) fn stop(&mut self) {
        self.zero_scalers.clear();
    }

    /// Serves `/push` of the first process at the returned address.
    pub(crate) async fn serve_pushes(&mut self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ZeroScaler { context, _tasks: tasks } = &mut self.zero_scalers[0];
        let (wake, metrics) = (context.scaling.wake.clone(), context.metrics.clone());
        let (guard, stop) = (TokenGuard::allow_all(), CancellationToken::new());
        let activators = activator_connections(context);
        tasks.spawn(async move {
            push_server::serve(listener, wake, metrics, guard, activators, stop).await;
        });
        address
    }

    /// A cluster-wide setting as the first process has it.
    pub(crate) fn requests_per_second_target_default(&self) -> f64 {
        self.zero_scalers[0].context.config().defaults.target.default_requests_per_second
    }

    /// Wall-clock time that advances with the paused clock.
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
        self.context.scaling.decisions.receive(
            adapter,
            DecisionEvent::Decided(decision),
            Instant::now().into_std(),
        );
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
        learning: None,
        hpa_lag: None,
    }
}
