//! Clients, their requests, and what may not happen to them.
//!
//! A request is lost if
//!
//! - its pod is removed by a 0 of ours, and it had begun [`UNSEEN`] before;
//! - the Service leads it to a pod that a 0 of ours removed, or to nothing;
//! - it is held for [`HELD`] at a size of 0, while its activator reaches a zero-scaler that can
//!   write.
//!
//! A request that began later than [`UNSEEN`] before the 0 may be on the pod as it ends: the drain
//! of the pod, which is not simulated, lets short ones end. Those of an activator that was killed,
//! or of a pod that the HPA removed, end without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::time::Instant;

use crate::activator::{Activator, Load};
use crate::cluster::{Cluster, NODES, Pod, PodChanges};
use crate::journal::Journal;
use crate::network::LATEST_WRITE;

/// Longest age of a request that a 0 on its way to the API server cannot take into account: the
/// age of the last report, with which a second is complete, the delay of the write, and two steps.
const UNSEEN: Duration = LATEST_WRITE.saturating_add(Duration::from_millis(2500 + 400));
/// Longest time at zero of a held request that is reported.
const HELD: Duration = Duration::from_secs(10);
/// Delay before a client connects again.
const RECONNECT: Duration = Duration::from_secs(1);
/// Time after which the objects of a new workload are complete.
const ADOPTED: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct Request {
    number: usize,
    node: usize,
    takes: Duration,
    state: RequestState,
}

#[derive(Debug)]
enum RequestState {
    Connects { at: Instant },
    Held { activator: usize, at_zero_since: Option<Instant> },
    Runs { pod: u64, via: Option<usize>, since: Instant },
}

/// All requests of a run.
#[derive(Debug)]
pub struct Requests {
    active: Vec<Request>,
    next: Instant,
    began: Instant,
    arrived_at_activators: BTreeMap<usize, usize>,
    /// All, and those from activators.
    arrived_at_pods: BTreeMap<u64, (usize, usize)>,
    /// Addresses of pods that a 0 removed.
    removed_by_zero: BTreeSet<String>,
    journal: Journal,
    /// Number of requests so far.
    pub total: usize,
    /// Number of requests that were held.
    pub held: usize,
    /// What was lost.
    pub lost: Vec<String>,
}

// === impl Requests ===

impl Requests {
    pub fn new(journal: Journal) -> Self {
        let now = Instant::now();
        Self {
            active: Vec::new(),
            next: now + ADOPTED,
            began: now,
            arrived_at_activators: BTreeMap::new(),
            arrived_at_pods: BTreeMap::new(),
            removed_by_zero: BTreeSet::new(),
            journal,
            total: 0,
            held: 0,
            lost: Vec::new(),
        }
    }

    /// Whether no request is left.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Lets no further request begin before `then`.
    pub fn pause_until(&mut self, then: Instant) {
        self.next = then;
    }

    /// Begins the requests that are due.
    pub fn arrive(&mut self, rng: &mut StdRng) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let burst = if rng.random_bool(0.2) { rng.random_range(2..40) } else { 1 };
        let takes = match rng.random_range(0..10) {
            0..5 => rng.random_range(50..2000),
            5..8 => rng.random_range(2000..30_000),
            _ => rng.random_range(30_000..200_000),
        };
        for _ in 0..burst {
            self.begin(rng.random_range(0..NODES), Duration::from_millis(takes));
        }
        // Short gaps keep the workload above zero, long ones let it go there.
        let gap = if rng.random_bool(0.4) {
            rng.random_range(200..5000)
        } else {
            rng.random_range(20_000..110_000)
        };
        self.next = now + Duration::from_millis(gap);
    }

    /// Begins one request.
    pub fn begin(&mut self, node: usize, takes: Duration) {
        self.total += 1;
        let state = RequestState::Connects { at: Instant::now() };
        self.journal.note(format!("request {} begins on node {node}, takes {takes:?}", self.total));
        self.active.push(Request { number: self.total, node, takes, state });
    }

    /// Connects, forwards and ends requests.
    pub fn step(&mut self, cluster: &Cluster, activators: &[Activator], rng: &mut StdRng) {
        let now = Instant::now();
        let ready: Vec<&Pod> = cluster.ready_pods().collect();
        let mut active = std::mem::take(&mut self.active);
        for request in &mut active {
            if let RequestState::Connects { at } = request.state
                && at <= now
            {
                self.connect(request, cluster, activators, rng);
            }
            if let RequestState::Held { activator, .. } = request.state
                && let Some(pod) = ready.choose(rng)
            {
                self.runs(request, pod, Some(activator));
            }
        }
        active.retain(|request| match request.state {
            RequestState::Runs { since, .. } => since + request.takes > now,
            _ => true,
        });
        self.active = active;
    }

    fn connect(
        &mut self,
        request: &mut Request,
        cluster: &Cluster,
        activators: &[Activator],
        rng: &mut StdRng,
    ) {
        let endpoints = cluster.endpoints_on(request.node);
        let Some(address) = endpoints.choose(rng) else {
            if self.began.elapsed() > ADOPTED {
                self.lose(format!("request {}: the Service has no endpoint", request.number));
            }
            return request.connect_later();
        };
        if let Some(number) = activators.iter().position(|activator| activator.ip.to_string() == *address) {
            if !activators[number].is_alive {
                return request.connect_later();
            }
            *self.arrived_at_activators.entry(number).or_default() += 1;
            self.held += usize::from(cluster.ready_pods().next().is_none());
            request.state = RequestState::Held { activator: number, at_zero_since: None };
        } else if let Some(pod) = cluster.ready_pods().find(|pod| pod.address == *address) {
            self.runs(request, pod, None);
        } else {
            if self.removed_by_zero.contains(address) {
                self.lose(format!("request {}: led to a pod that a 0 removed", request.number));
            }
            request.connect_later();
        }
    }

    fn runs(&mut self, request: &mut Request, pod: &Pod, via: Option<usize>) {
        let (all, proxied) = self.arrived_at_pods.entry(pod.number).or_default();
        *all += 1;
        *proxied += usize::from(via.is_some());
        request.state = RequestState::Runs { pod: pod.number, via, since: Instant::now() };
    }

    /// Ends the requests of pods that were removed.
    pub fn pods_removed(&mut self, changes: &PodChanges) {
        let now = Instant::now();
        for pod in &changes.removed {
            for request in &self.active {
                if let RequestState::Runs { pod: number, via, since } = request.state
                    && number == pod.number
                {
                    let age = now - since;
                    let what = format!("request {} of {age:?} via {via:?} on pod {number}", request.number);
                    self.journal.note(format!("{what} ends with its pod"));
                    if changes.to_zero && age > UNSEEN {
                        self.lost.push(format!("{what} was removed by a 0"));
                    }
                }
            }
            let is_on = |request: &Request| matches!(request.state, RequestState::Runs { pod: on, .. } if on == pod.number);
            self.active.retain(|request| !is_on(request));
            if changes.to_zero {
                self.removed_by_zero.insert(pod.address.clone());
            }
        }
    }

    /// Ends the requests in a process that was killed. Clients of held ones connect again.
    pub fn activator_killed(&mut self, number: usize) {
        self.active.retain_mut(|request| match request.state {
            RequestState::Held { activator, .. } if activator == number => {
                request.connect_later();
                true
            }
            RequestState::Runs { via, .. } => via != Some(number),
            _ => true,
        });
    }

    /// Checks that held requests get a size, where `can_wake` holds for their activators.
    pub fn check_held(&mut self, size: i64, can_wake: impl Fn(usize) -> bool) {
        let now = Instant::now();
        let mut lost = Vec::new();
        for request in &mut self.active {
            let RequestState::Held { activator, at_zero_since } = &mut request.state else { continue };
            if size > 0 || !can_wake(*activator) {
                *at_zero_since = None;
            } else if now - *at_zero_since.get_or_insert(now) > HELD {
                lost.push(format!(
                    "request {} is held by activator {activator} at zero for {HELD:?}",
                    request.number
                ));
            }
        }
        lost.into_iter().for_each(|what| self.lose(what));
    }

    /// The requests of an activator.
    pub fn of_activator(&self, number: usize) -> Load {
        let is_here = |request: &&Request| match request.state {
            RequestState::Held { activator, .. } => activator == number,
            RequestState::Runs { via, .. } => via == Some(number),
            RequestState::Connects { .. } => false,
        };
        let requests = self.active.iter().filter(is_here).count();
        Load { requests, arrived: self.arrived_at_activators.get(&number).copied().unwrap_or_default() }
    }

    /// All requests of a pod, and those from activators.
    pub fn of_pod(&self, number: u64) -> (Load, Load) {
        let count = |is_wanted: fn(Option<usize>) -> bool| {
            let is_here = |request: &&Request| matches!(request.state, RequestState::Runs { pod, via, .. } if pod == number && is_wanted(via));
            self.active.iter().filter(is_here).count()
        };
        let (arrived, proxied) = self.arrived_at_pods.get(&number).copied().unwrap_or_default();
        let all = Load { requests: count(|_| true), arrived };
        (all, Load { requests: count(|via| via.is_some()), arrived: proxied })
    }

    /// Begins the next second of the counts.
    pub fn end_second(&mut self) {
        self.arrived_at_activators.clear();
        self.arrived_at_pods.clear();
    }

    fn lose(&mut self, what: String) {
        self.journal.note(&what);
        self.lost.push(what);
    }
}

// === impl Request ===

impl Request {
    fn connect_later(&mut self) {
        self.state = RequestState::Connects { at: Instant::now() + RECONNECT };
    }
}
