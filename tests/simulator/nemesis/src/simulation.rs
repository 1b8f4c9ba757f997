//! One run: the steps of the cluster, and the faults of its seed.

mod injection;

use std::time::Duration;

use autoscaler::stats::ActivatorReport;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use simulator::hpa::{
    Behavior, Hpa, HpaSpec, ObservedTarget, PolicyKind, ScalingPolicy, ScalingRules, SelectPolicy,
};
use tokio::time::{Instant, sleep};

use crate::activator::Activator;
use crate::clock::WallClock;
use crate::cluster::{Cluster, MAX_PODS, NodeProber, TARGET, WorkloadKind};
use crate::faults::{self, TimedFault, ZERO_SCALERS};
use crate::journal::Journal;
use crate::network::ProcessNetwork;
use crate::parts::metrics_adapter::MetricsAdapter;
use crate::parts::zero_scaler::ZeroScaler;
use crate::requests::Requests;

const STEP: Duration = Duration::from_millis(200);
const SECOND: u32 = 5;
const HPA_PERIOD: u32 = 15 * SECOND;
/// Faults begin after the workload was adopted, and end together.
const FAULTS: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(420));
/// Longest time until an idle workload is at zero after all faults: an activator that was away for
/// long is due for the time of two drains.
const SETTLED: Duration = Duration::from_secs(400);
/// Longest time from a request to its response after that.
const SERVED: Duration = Duration::from_secs(40);
/// After this time a zero-scaler has all lists, and after a fault its retries are over.
const RECOVERED: Duration = Duration::from_secs(15);

/// What to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub seed: u64,
    /// Receivers take the silence of an activator for a report without requests: a fault in the
    /// parts under test, which has to be found.
    pub silence_is_zero: bool,
}

/// What happened in a run without a failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub requests: usize,
    pub held: usize,
    /// How often the size became 0.
    pub zeros: usize,
    pub faults: usize,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.held += other.held;
        self.zeros += other.zeros;
        self.faults += other.faults;
    }
}

/// A rule that did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
    pub journal: Vec<String>,
}

struct Simulation {
    options: Options,
    rng: StdRng,
    began: Instant,
    steps: u32,
    cluster: Cluster,
    activators: Vec<Activator>,
    zero_scalers: [Option<ZeroScaler>; ZERO_SCALERS],
    adapter: Option<MetricsAdapter>,
    /// Of the zero-scalers, then of the adapter.
    clocks: Vec<WallClock>,
    cut_decisions: [bool; ZERO_SCALERS],
    readable: bool,
    /// When the slices follow the processes of activators.
    relist_at: Option<Instant>,
    /// When an activator's report last did not reach a zero-scaler.
    last_cut: Vec<[Instant; ZERO_SCALERS]>,
    requests: Requests,
    hpa: Hpa,
    journal: Journal,
    zeros: usize,
}

/// Runs one seed. Needs a runtime of one thread with a paused clock.
///
/// # Errors
/// When a rule does not hold.
pub async fn run(options: Options) -> Result<Summary, Failure> {
    let mut simulation = Simulation::new(options);
    let result = simulation.run().await;
    let journal = simulation.journal.events();
    result.map_err(|what| Failure { seed: options.seed, what, journal })
}

// === impl Simulation ===

impl Simulation {
    fn new(options: Options) -> Self {
        let mut rng = StdRng::seed_from_u64(options.seed);
        let (began, journal) = (Instant::now(), Journal::new());
        let kind = WorkloadKind { sidecars: rng.random_bool(0.5), serves: rng.random_bool(0.5) };
        let activators: Vec<_> = (0..rng.random_range(2..=3)).map(Activator::new).collect();
        journal.note(format!("{kind:?}, {} activators", activators.len()));
        let cluster = Cluster::new(kind, journal.clone());
        cluster.publish_activators(&activators);
        cluster.network.lock().activators = activators.iter().map(|activator| activator.ip).collect();
        let mut simulation = Self {
            last_cut: vec![[began; ZERO_SCALERS]; activators.len()],
            options,
            rng,
            began,
            steps: 0,
            cluster,
            activators,
            zero_scalers: Default::default(),
            adapter: None,
            clocks: (0..=ZERO_SCALERS).map(|_| WallClock::new(began)).collect(),
            cut_decisions: [false; ZERO_SCALERS],
            readable: true,
            relist_at: None,
            requests: Requests::new(journal.clone()),
            hpa: hpa(),
            journal,
            zeros: 0,
        };
        for clock in &simulation.clocks {
            clock.step(simulation.rng.random_range(-2000..2000));
        }
        simulation.start_adapter();
        (0..ZERO_SCALERS).for_each(|number| simulation.start_zero_scaler(number));
        simulation
    }

    async fn run(&mut self) -> Result<Summary, String> {
        let faults = faults::draw(&mut self.rng, self.activators.len(), FAULTS.0, FAULTS.1);
        let mut ends: Vec<TimedFault> = Vec::new();
        let mut begins = faults.iter();
        let mut next = begins.next();
        while self.began.elapsed() < FAULTS.1 {
            let now = self.began.elapsed();
            while let Some(fault) = next.filter(|fault| fault.begins <= now) {
                self.begin_fault(&fault.fault);
                ends.push(fault.clone());
                next = begins.next();
            }
            for fault in ends.extract_if(.., |fault| fault.ends <= now).collect::<Vec<_>>() {
                self.end_fault(&fault.fault);
            }
            self.requests.arrive(&mut self.rng);
            self.step().await?;
        }
        ends.iter().for_each(|fault| self.end_fault(&fault.fault));
        self.settle().await?;
        let (requests, held) = (self.requests.total, self.requests.held);
        Ok(Summary { requests, held, zeros: self.zeros, faults: faults.len() })
    }

    /// After the faults: the workload goes to zero, and a request wakes it.
    async fn settle(&mut self) -> Result<(), String> {
        self.journal.note("the faults have ended");
        self.until(SETTLED + Duration::from_secs(400), "the last response", |it| it.requests.is_empty())
            .await?;
        self.until(SETTLED, "a size of 0 behind activators", Self::is_at_rest).await?;
        self.requests.begin(1, Duration::from_millis(300));
        self.step().await?;
        self.until(SERVED, "the response of a held request", |it| it.requests.is_empty()).await?;
        self.until(SETTLED, "a size of 0 after it", Self::is_at_rest).await
    }

    fn is_at_rest(&self) -> bool {
        let endpoints = self.cluster.service_endpoints();
        let is_activator = |address: &String| self.activators.iter().any(|it| it.ip.to_string() == *address);
        self.cluster.size() == 0 && !endpoints.is_empty() && endpoints.iter().all(is_activator)
    }

    async fn until(
        &mut self,
        longest: Duration,
        what: &str,
        reached: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + longest;
        while !reached(self) {
            if Instant::now() > deadline {
                return Err(format!("after {longest:?} there is not {what}: {}", self.cluster.state()));
            }
            self.step().await?;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<(), String> {
        sleep(STEP).await;
        self.steps += 1;
        self.clocks[ZERO_SCALERS].set_adapter();
        self.relist_activators();
        let changes = self.cluster.step(&mut self.rng);
        self.zeros += usize::from(changes.to_zero);
        self.requests.pods_removed(&changes);
        self.requests.step(&self.cluster, &self.activators, &mut self.rng);
        self.send_pokes();
        if let Some(adapter) = &mut self.adapter {
            adapter.list_pods(&self.cluster);
        }
        if self.steps.is_multiple_of(SECOND) {
            self.end_second();
        }
        if self.steps.is_multiple_of(HPA_PERIOD) {
            self.sync_hpa().await;
        }
        for (zero_scaler, cut) in self.zero_scalers.iter_mut().zip(self.cut_decisions) {
            let Some(zero_scaler) = zero_scaler else { continue };
            match &self.adapter {
                None => zero_scaler.decisions_ended(),
                adapter => zero_scaler.follow_decisions(adapter.as_ref().filter(|_| !cut)),
            }
        }
        self.check_held();
        match self.requests.lost.first() {
            Some(lost) => Err(lost.clone()),
            None => Ok(()),
        }
    }

    fn send_pokes(&mut self) {
        let at = self.clocks[ZERO_SCALERS].millis();
        for number in 0..self.activators.len() {
            let load = self.requests.of_activator(number);
            let report = self.activators[number].poke(load, at);
            report.into_iter().for_each(|report| self.send(number, &report));
        }
    }

    fn end_second(&mut self) {
        let at = self.clocks[ZERO_SCALERS].millis();
        for number in 0..self.activators.len() {
            if self.activators[number].is_alive {
                let report = self.activators[number].beat(self.requests.of_activator(number), at);
                self.send(number, &report);
            }
        }
        for zero_scaler in self.zero_scalers.iter_mut().flatten() {
            zero_scaler.end_silent(&self.activators);
        }
        if let Some(adapter) = &mut self.adapter {
            adapter.follow_activators();
            if self.cluster.kind.sidecars {
                adapter.scrape(&self.cluster, &self.requests, self.readable);
            }
        }
        self.requests.end_second();
    }

    /// Sends a frame to each receiver that it reaches.
    fn send(&mut self, number: usize, report: &ActivatorReport) {
        let activator = &self.activators[number];
        let empty = ActivatorReport { messages: Vec::new(), ..report.clone() };
        for (receiver, zero_scaler) in self.zero_scalers.iter_mut().enumerate() {
            let Some(zero_scaler) = zero_scaler else { continue };
            if !activator.cut[receiver] {
                zero_scaler.receive(number, activator, report.clone());
            } else {
                self.last_cut[number][receiver] = Instant::now();
                if self.options.silence_is_zero {
                    zero_scaler.receive(number, activator, empty.clone());
                }
            }
        }
        if let Some(adapter) = &mut self.adapter {
            if !activator.cut[ZERO_SCALERS] {
                adapter.receive(number, report);
            } else if self.options.silence_is_zero {
                adapter.receive(number, &empty);
            }
        }
    }

    async fn sync_hpa(&mut self) {
        let metric = match &self.adapter {
            Some(adapter) => adapter.metric().await,
            None => Err(simulator::hpa::NoMetric),
        };
        let size = i32::try_from(self.cluster.size()).unwrap();
        let observed = ObservedTarget { spec: size, status: size, usages: &[metric] };
        let wanted = self.hpa.sync(observed, self.began.elapsed()).replicas;
        if wanted != size {
            self.cluster.scale(wanted.into());
        }
    }

    fn check_held(&mut self) {
        let can_write = |zero_scaler: &ZeroScaler| {
            zero_scaler.started.elapsed() > RECOVERED && zero_scaler.network.is_healthy_for(RECOVERED)
        };
        let able: Vec<bool> =
            self.zero_scalers.iter().map(|zero_scaler| zero_scaler.as_ref().is_some_and(can_write)).collect();
        let last_cut = &self.last_cut;
        let can_wake = |activator: usize| {
            let reaches = |receiver: usize| last_cut[activator][receiver].elapsed() > Duration::from_secs(2);
            (0..ZERO_SCALERS).any(|receiver| able[receiver] && reaches(receiver))
        };
        self.requests.check_held(self.cluster.size(), can_wake);
    }

    fn start_zero_scaler(&mut self, number: usize) {
        let network = ProcessNetwork::new(self.cluster.api.clone(), self.rng.random());
        let prober = NodeProber(self.cluster.network.clone());
        let name = format!("zero-scaler-{number}");
        let clock = &self.clocks[number];
        self.zero_scalers[number] = Some(ZeroScaler::start(&name, network, clock, prober));
    }

    fn start_adapter(&mut self) {
        self.clocks[ZERO_SCALERS].set_adapter();
        let network = ProcessNetwork::new(self.cluster.api.clone(), self.rng.random());
        self.adapter = Some(MetricsAdapter::start(network, self.cluster.kind));
    }

    /// The network of a zero-scaler, or of the adapter, if it runs.
    fn network(&self, process: usize) -> Option<&ProcessNetwork> {
        match self.zero_scalers.get(process) {
            Some(zero_scaler) => zero_scaler.as_ref().map(|zero_scaler| &zero_scaler.network),
            None => self.adapter.as_ref().map(|adapter| &adapter.network),
        }
    }
}

fn hpa() -> Hpa {
    let rules = || ScalingRules {
        stabilization: Duration::from_secs(15),
        select: SelectPolicy::Max,
        policies: vec![ScalingPolicy {
            kind: PolicyKind::Percent,
            value: 100,
            period: Duration::from_secs(15),
        }],
        tolerance: Some(0.0),
    };
    Hpa::new(HpaSpec {
        min: 1,
        max: i32::try_from(MAX_PODS).unwrap(),
        targets: vec![TARGET * 1000],
        behavior: Some(Behavior { up: rules(), down: rules() }),
    })
}
