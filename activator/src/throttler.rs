//! Throttler: all workloads, each with its own throttler and its listeners; created, changed and removed as told.
//!
//! A workload that is gone is served for a while longer: its EndpointSlices name this activator until they are collected too and every
//! kube-proxy has read it, and callers would find a closed port. Whoever gets its port meanwhile has it at once.
//!
//! One task owns this. Requests never come here: each listener holds its workload's throttler. What other activators say comes
//! this way, so that a workload knows them before it hears them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use autoscaler::slot_lending::{Message, Word};
use autoscaler::{Key, Protocol};
use proxy::health_checks::HealthChecks;
use proxy::tcp::IdleTimeouts;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::args::Limits;
use crate::concurrency_reporter::ConcurrencyReporter;
use crate::expected_probes::ExpectedProbes;
use crate::forward::Forwarder;
use crate::guard::Question;
use crate::handler::Handler;
use crate::held_places::HeldPlaces;
use crate::listeners::{Listeners, Service};
use crate::metrics::Metrics;
use crate::slot_exchange::{Heard, Neighbours, News};
use crate::tcp_handler::TcpHandler;
use crate::workload_throttler::WorkloadThrottler;
use crate::workloads::{Change, Index, Update, Workload};

/// How long a workload that is gone is still served. Collection and kube-proxies take a second or two, on a busy cluster some more.
const FAREWELL: Duration = Duration::from_secs(10);

/// What all workloads of the process share.
#[derive(Debug)]
pub struct Shared {
    /// Probes pods. Requests go by the workers' own.
    pub prober: Forwarder,
    /// To the adapters and zero-scalers.
    pub reporter: ConcurrencyReporter,
    /// All families.
    pub metrics: Arc<Metrics>,
    /// Who only asks whether a workload is alive.
    pub health_checks: HealthChecks,
    /// Places for held requests, of all workloads together.
    pub held: HeldPlaces,
    /// How many requests may wait, and how long.
    pub limits: Limits,
    /// When connections that are not HTTP's count.
    pub idle_timeouts: IdleTimeouts,
    /// Who is about to ask on their ports.
    pub expected_probes: ExpectedProbes,
    /// Set when the process stops: callers should connect elsewhere.
    pub draining: AtomicBool,
}

/// The workloads, by key.
#[derive(Debug)]
pub struct Throttler {
    shared: Arc<Shared>,
    index: Index,
    workloads: HashMap<Key, Arc<WorkloadThrottler>>,
    /// Those that are gone, and until when they are served; in the order in which they went.
    leaving: VecDeque<(Instant, Key)>,
    listeners: Listeners,
    neighbours: Arc<Neighbours>,
}

// === impl Throttler ===

impl Throttler {
    /// No workloads yet.
    pub fn new(shared: Arc<Shared>, listeners: Listeners) -> Self {
        let (index, workloads, leaving, neighbours) =
            (Index::default(), HashMap::new(), VecDeque::new(), Arc::default());
        Self { shared, index, workloads, leaving, listeners, neighbours }
    }

    /// Applies changes, hands on what other activators say and answers the guard, for ever. When nobody tells any more, what is open
    /// stays open: the data plane goes on with what it knows.
    pub async fn run(
        mut self,
        mut changes: mpsc::Receiver<Change>,
        mut others: News,
        mut guard: mpsc::Receiver<Question>,
    ) {
        loop {
            tokio::select! {
                biased;
                Ok(()) = others.neighbours.changed() => {
                    self.set_neighbours(others.neighbours.borrow_and_update().clone());
                }
                Some(heard) = others.heard.recv() => self.hear(heard),
                Some(change) = changes.recv() => self.hear_of(change),
                Some(gone) = farewell(&self.leaving) => self.part_from(gone),
                Some(question) = guard.recv() => {
                    let stranded = self.workloads.values().filter_map(|workload| workload.stranded());
                    // Who does not listen any more will ask again.
                    let _ = question.send(stranded.collect());
                }
                else => std::future::pending().await,
            }
        }
    }

    fn set_neighbours(&mut self, neighbours: Arc<Neighbours>) {
        for workload in self.workloads.values() {
            workload.set_neighbours(neighbours.clone());
        }
        self.neighbours = neighbours;
    }

    fn hear(&self, Heard { from, words }: Heard) {
        for word in words {
            match (self.workloads.get(&word.workload), &word.message) {
                (Some(workload), _) => workload.hear(from, word.message),
                // Nobody here knows what for.
                (None, Message::Lend(pod)) => {
                    let message = Message::Return(*pod);
                    self.neighbours.say(from, Word { message, ..word });
                }
                (None, _) => {}
            }
        }
    }

    fn hear_of(&mut self, change: Change) {
        match change {
            Change::Workload(key, None) => self.leaving.push_back((Instant::now() + FAREWELL, key)),
            Change::Workload(ref key, Some(_)) => {
                self.leaving.retain(|(_, leaving)| leaving != key);
                self.change(change);
            }
            Change::Pod(..) => self.change(change),
        }
    }

    fn part_from(&mut self, gone: Key) {
        self.leaving.pop_front();
        self.change(Change::Workload(gone, None));
    }

    fn change(&mut self, change: Change) {
        for update in self.index.apply(change) {
            self.apply(update);
        }
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Workload(key, workload) => self.put(key, workload),
            Update::Removed(key) => self.remove(&key),
            Update::Pod(key, name, endpoint) => {
                if let Some(throttler) = self.workloads.get(&key) {
                    throttler.set_pod(&name, endpoint, Instant::now());
                }
            }
            Update::Starting(key, uid, scheduled) => {
                if let Some(throttler) = self.workloads.get(&key) {
                    throttler.pod_starts().seen(&uid, scheduled, Instant::now());
                }
            }
        }
    }

    fn put(&mut self, key: Key, workload: Workload) {
        let ports = workload.ports.clone();
        let throttler = match self.workloads.get(&key) {
            Some(throttler) => {
                throttler.update(workload);
                throttler.clone()
            }
            None => {
                tracing::info!(workload = %key, "workload");
                let (shared, neighbours) = (self.shared.clone(), self.neighbours.clone());
                let throttler = WorkloadThrottler::new(key.clone(), workload, shared, neighbours);
                self.workloads.insert(key.clone(), throttler.clone());
                throttler
            }
        };
        let shared = &self.shared;
        self.listeners.keep(&key, &ports, |lease| match lease.protocol {
            Protocol::Http => {
                Service::Http(Arc::new(Handler::new(shared.clone(), throttler.clone(), lease.pod_port)))
            }
            Protocol::Tcp => Service::Tcp(TcpHandler::new(shared.clone(), throttler.clone(), lease)),
        });
    }

    fn remove(&mut self, key: &Key) {
        if let Some(throttler) = self.workloads.remove(key) {
            tracing::info!(workload = %key, "workload is gone");
            self.listeners.close(key);
            throttler.end();
            self.shared.metrics.forget(key);
        }
    }
}

/// The first that goes, once it is time; none if nobody does.
async fn farewell(leaving: &VecDeque<(Instant, Key)>) -> Option<Key> {
    let (at, key) = leaving.front()?;
    sleep_until(*at).await;
    Some(key.clone())
}
