//! Simulation: the parts, and the events by which they meet.
//!
//! Two halves share the state: `traffic` moves requests, `control` measures them and changes the number of pods. Each handler
//! does what happens at one instant and schedules what follows from it.

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
use crate::workload::pod::{Pod, PodId};
use crate::workload::replica_set::{ReplicaSet, Writer};
use crate::workload::request::{ActivatorId, Request};
use crate::workload::service::{Backend, Slices};
use crate::zero_scaler::ZeroScaler;

/// Events that may wait to happen.
const MAX_EVENTS: usize = 1_000_000;
/// A run may take so long, which bounds what its report holds.
const MAX_RUN: Duration = Duration::from_secs(24 * 3600);

/// A scenario, being played.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    now: Time,
    events: EventQueue<Event>,
    random: StdRng,
    arrivals: Arrivals,
    /// What the zero-scaler wrote last, and what clients know of it.
    slices: Slices,
    seen_slices: Slices,
    activators: Vec<Activator>,
    replicas: ReplicaSet,
    /// `None` while it is lost.
    adapter: Option<MetricsAdapter>,
    zero_scaler: ZeroScaler,
    hpa: Option<(Hpa, HpaMetric)>,
    report: Report,
}

/// Something that happens.
#[derive(Debug)]
enum Event {
    /// A second begins.
    Second,
    /// A request comes in.
    Arrived(Request),
    /// A pod has done a request.
    Finished(PodId, Request),
    /// An activator's word arrives at another.
    PeerMessage { from: ActivatorId, to: ActivatorId, message: SlotMessage<PodId> },
    /// A client has waited long enough.
    DeadlineExpired(Backend, u64),
    /// A pod's app answers.
    PodReady(PodId),
    /// A pod that was told to go may be gone.
    PodDrained(PodId),
    /// An activator's word arrives.
    Push(Box<Stat>),
    /// The adapter asks the pods.
    Scrape,
    /// The adapter decides.
    Tick,
    /// A decision arrives at the zero-scaler.
    Decided(Box<Decision>),
    /// The zero-scaler looks.
    Reconcile,
    /// A write of the zero-scaler arrives at the API server.
    SizeWritten(SizeWrite),
    /// The HPA looks.
    HpaSync,
    /// Clients learn of new slices.
    SlicesPropagated(Slices),
    /// The adapter is lost.
    AdapterLost,
    /// The adapter is back.
    AdapterBack,
}

/// A size on its way to the API server.
#[derive(Clone, Copy, Debug)]
struct SizeWrite {
    to: u32,
    writer: Writer,
    /// The version that it goes by.
    seen: u64,
}

/// Why a run did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Too much happens at a time.
    #[error(transparent)]
    EventQueueFull(#[from] EventQueueFull),
    /// Too long a run was asked for.
    #[error("a run of {0:?} was asked for; at most {MAX_RUN:?} are possible")]
    TooLong(Duration),
}

// === impl Scenario ===

impl Scenario {
    /// Plays the scenario for this long.
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
    /// A scenario at its start.
    pub fn new(scenario: Scenario) -> Self {
        let Scenario { seed, service_time, client_timeout, container_concurrency, .. } = scenario;
        let slices = Slices { mode: SksMode::Proxy, pods: Vec::new(), activators: scenario.activators };
        let mut simulation = Self {
            now: Duration::ZERO,
            events: EventQueue::new(MAX_EVENTS),
            random: StdRng::seed_from_u64(seed),
            arrivals: Arrivals::new(scenario.load.clone(), service_time, client_timeout, seed),
            seen_slices: slices.clone(),
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

    /// Lets everything happen that happens before `end`.
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

    /// What happened so far.
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
        self.after(Duration::ZERO, Event::Second);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Second => self.second(),
            Event::Arrived(request) => self.request_arrived(request),
            Event::Finished(pod, request) => self.finished(pod, request),
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

    /// Notes for how long a pod has had nothing to do beside one and the same held request. To be called before anything
    /// changes.
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
