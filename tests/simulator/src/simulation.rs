//! The simulation: owns all components and dispatches events in virtual time.
//!
//! Two child modules implement the event handlers: `traffic` moves requests, and `control` measures
//! them and changes the number of pods. A handler applies the effects of one instant and schedules
//! the events that follow from it.

mod app;
mod control;
pub mod event_queue;
mod traffic;

use std::time::Duration;

use autoscaler::Decision;
use autoscaler::routing::sks_mode::SksMode;
use autoscaler::routing::slot_lending::SlotMessage;
use autoscaler::stats::Stat;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::activator::Activator;
use crate::activator::pod_slots::PodSlots;
use crate::clock::Time;
use crate::hpa::Hpa;
use crate::load::arrivals::Arrivals;
use crate::metrics_adapter::MetricsAdapter;
use crate::report::Report;
use crate::scenario::{HpaMetric, Scenario};
use crate::simulation::event_queue::{EventQueue, EventQueueFull};
use crate::workload::app::AppModel;
use crate::workload::pod::{Pod, PodId};
use crate::workload::replica_set::{ReplicaSet, Writer};
use crate::workload::request::{ActivatorId, Request};
use crate::workload::server_queue::ServerQueue;
use crate::workload::service::{Backend, Slices};
use crate::zero_scaler::ZeroScaler;

/// Bound of the event queue.
const MAX_EVENTS: usize = 1_000_000;
/// Bounds the size of a report's timeline.
const MAX_RUN: Duration = Duration::from_secs(24 * 3600);

/// A running scenario.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    now: Time,
    events: EventQueue<Event>,
    random: StdRng,
    arrivals: Arrivals,
    /// The slices that the zero-scaler wrote last, and the slices that clients use: they differ for
    /// the propagation delay.
    slices: Slices,
    seen_slices: Slices,
    /// The app now: the scenario's, or the one of its last change.
    app: AppModel,
    /// Mean service time of the app now.
    mean_work: Time,
    /// Slots of a dependency that all pods share.
    dependency: ServerQueue<(PodId, Request)>,
    activators: Vec<Activator>,
    replicas: ReplicaSet,
    /// `None` during an outage.
    adapter: Option<MetricsAdapter>,
    zero_scaler: ZeroScaler,
    hpa: Option<(Hpa, HpaMetric)>,
    report: Report,
}

/// A scheduled event.
#[derive(Debug)]
enum Event {
    /// A second begins.
    Second,
    /// A request arrives at the Service.
    Arrived(Request),
    /// A pod finished a request.
    Finished(PodId, Request),
    /// The CPU phase of a pod's request ends, if the version is still valid.
    CpuEnded { pod: PodId, version: u64 },
    /// The app changes: index into the scenario's changes.
    AppChanged(usize),
    /// A message between activators is delivered.
    PeerMessage { from: ActivatorId, to: ActivatorId, message: SlotMessage<PodId> },
    /// The client timeout of a request expired.
    DeadlineExpired(Backend, u64),
    /// A pod's readiness probe succeeds.
    PodReady(PodId),
    /// A terminating pod may have finished its requests.
    PodDrained(PodId),
    /// A stat of an activator is delivered.
    Push(Box<Stat>),
    /// The adapter scrapes the pods.
    Scrape,
    /// The adapter makes a decision.
    Tick,
    /// A decision is delivered to the zero-scaler.
    Decided(Box<Decision>),
    /// The zero-scaler reconciles.
    Reconcile,
    /// A write of the zero-scaler arrives at the API server.
    SizeWritten(SizeWrite),
    /// The HPA controller syncs.
    HpaSync,
    /// New slices have reached the clients' nodes.
    SlicesPropagated(Slices),
    /// The adapter stops.
    AdapterLost,
    /// The adapter restarts.
    AdapterBack,
}

/// A write of `spec.replicas` on its way to the API server.
#[derive(Clone, Copy, Debug)]
struct SizeWrite {
    to: u32,
    writer: Writer,
    /// Version of the ReplicaSet that the write is based on.
    seen: u64,
}

/// The reason why a run was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The scenario generates too many events.
    #[error(transparent)]
    EventQueueFull(#[from] EventQueueFull),
    /// The requested length exceeds the maximum.
    #[error("run of {0:?} exceeds the maximum of {MAX_RUN:?}")]
    TooLong(Duration),
}

// === impl Scenario ===

impl Scenario {
    /// Runs the scenario for this long.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run(self, length: Duration) -> Result<Report, RunError> {
        let mut simulation = Simulation::new(self);
        simulation.run_until(length)?;
        Ok(simulation.report())
    }
}

// === impl Simulation ===

impl Simulation {
    /// Creates the components and schedules the first events.
    pub fn new(scenario: Scenario) -> Self {
        let Scenario { seed, service_time, client_timeout, container_concurrency, .. } = scenario;
        let slices = Slices { mode: SksMode::Proxy, pods: Vec::new(), activators: scenario.activators };
        let mut simulation = Self {
            now: Duration::ZERO,
            events: EventQueue::new(MAX_EVENTS),
            random: StdRng::seed_from_u64(seed),
            arrivals: Arrivals::new(scenario.load.clone(), service_time, client_timeout, seed),
            seen_slices: slices.clone(),
            app: scenario.app,
            mean_work: service_time.mean(),
            dependency: ServerQueue::default(),
            slices,
            activators: activators(&scenario),
            replicas: ReplicaSet::new(scenario.initial_replicas, container_concurrency),
            adapter: Some(MetricsAdapter::new(&scenario)),
            zero_scaler: ZeroScaler::new(&scenario),
            hpa: scenario.hpa_spec().map(|(spec, metric)| (Hpa::new(spec), metric)),
            report: Report::default(),
            scenario,
        };
        simulation.begin();
        simulation
    }

    /// Handles all events before `end`.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run_until(&mut self, end: Time) -> Result<(), RunError> {
        if end > MAX_RUN {
            return Err(RunError::TooLong(end));
        }
        while let Some((at, event)) = self.events.pop(end)? {
            self.now = at;
            self.record_idle_pods();
            self.handle(event);
        }
        self.now = end;
        self.record_idle_pods();
        Ok(())
    }

    /// The results up to now.
    pub fn report(&self) -> Report {
        Report {
            running: self.running(),
            held: self.held(),
            changes: self.replicas.changes().to_vec(),
            most_running: self.replicas.most_running(),
            ..self.report.clone()
        }
    }

    fn begin(&mut self) {
        self.update_activators();
        self.begin_control();
        for (index, change) in self.scenario.app_changes.iter().enumerate() {
            self.events.schedule(change.at, Event::AppChanged(index));
        }
        self.after(Duration::ZERO, Event::Second);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Second => self.second(),
            Event::Arrived(request) => self.request_arrived(request),
            Event::Finished(pod, request) => self.finished(pod, request),
            Event::CpuEnded { pod, version } => self.cpu_ended(pod, version),
            Event::AppChanged(index) => self.app_changed(index),
            Event::PeerMessage { from, to, message } => self.peer_message(from, to, message),
            Event::DeadlineExpired(place, id) => self.deadline_expired(place, id),
            Event::PodReady(pod) => self.pod_ready(pod),
            Event::PodDrained(pod) => self.pod_drained(pod),
            Event::Push(stat) => self.stat_pushed(&stat),
            Event::Scrape => self.scrape(),
            Event::Tick => self.tick(),
            Event::Decided(decision) => self.decided(*decision),
            Event::Reconcile => self.reconcile(),
            Event::SizeWritten(write) => self.size_write_applied(write),
            Event::HpaSync => self.hpa_sync(),
            Event::SlicesPropagated(slices) => self.seen_slices = slices,
            Event::AdapterLost => self.adapter_lost(),
            Event::AdapterBack => self.adapter_back(),
        }
    }

    /// Updates the longest time for which a pod was idle while one and the same request was held.
    /// Runs before each event, because an event may end such an interval.
    fn record_idle_pods(&mut self) {
        let Some(oldest) = self.activators.iter().filter_map(Activator::oldest_held).min() else { return };
        for idle_since in self.replicas.pods().filter_map(|(_, pod)| pod.idle_since()) {
            let together = self.now.saturating_sub(oldest.max(idle_since));
            self.report.longest_idle = self.report.longest_idle.max(together);
        }
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.events.schedule(self.now + delay, event);
    }

    fn running(&self) -> usize {
        self.replicas.pods().map(|(_, pod)| pod.running()).sum()
    }

    fn held(&self) -> usize {
        let in_sidecars: usize = self.replicas.pods().map(|(_, pod)| pod.waiting()).sum();
        in_sidecars + self.activators.iter().map(Activator::held).sum::<usize>()
    }

    fn ready(&self) -> u32 {
        let ready = self.replicas.pods().filter(|(_, pod)| Pod::is_ready(pod)).count();
        u32::try_from(ready).unwrap_or(u32::MAX)
    }
}

fn activators(scenario: &Scenario) -> Vec<Activator> {
    let Scenario { activators, container_concurrency, lending, .. } = *scenario;
    (0..activators)
        .map(|id| Activator::new(PodSlots::new(container_concurrency, id, activators, lending)))
        .collect()
}
