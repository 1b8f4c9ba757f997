//! WorkloadThrottler: holds the requests of one workload until one of its pods has a place for them.
//!
//! Requests come here from the listeners, pods and settings from the [`Throttler`](crate::throttler::Throttler). The
//! [`SlotQueue`] keeps the order and gives each request its pod; what is here decides who may wait and for how long, and has
//! pods probed that are not known to take requests.
//!
//! Knative calls this the revision throttler.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use autoscaler::Key;
use autoscaler::contract::QUEUE_PROXY_PORT;
use autoscaler::pod_start::StartCause;
use autoscaler::slot_lending::Message;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cold_start::{ColdStart, SlowWakes};
use crate::concurrency_reporter::Counter;
use crate::guard::Stranded;
use crate::held_places::{Full, WorkloadPlaces};
use crate::metrics::WorkloadMetrics;
use crate::pod_prober;
use crate::pod_set::PodSet;
use crate::pod_slots::PodSlots;
use crate::pod_starts::PodStarts;
use crate::pod_tracker::PodTracker;
use crate::slot_exchange::{LinkId, Neighbours};
use crate::slot_queue::{Slot, SlotQueue};
use crate::throttler::Shared;
use crate::workloads::{Endpoint, Workload};

/// One workload and everything that waits for it or runs on it from here.
#[derive(Debug)]
pub struct WorkloadThrottler {
    key: Key,
    shared: Arc<Shared>,
    workload: ArcSwap<Workload>,
    counter: Arc<Counter>,
    queue: Arc<SlotQueue>,
    /// Whether a pod is neither usable nor probed: read by every request, written with the pods.
    unprobed: AtomicBool,
    standing: watch::Sender<Standing>,
    places: WorkloadPlaces,
    pod_starts: PodStarts,
    slow_wakes: SlowWakes,
    metrics: OnceLock<WorkloadMetrics>,
}

/// Whether requests may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Open,
    Paused,
    CannotStart(StartCause),
    Gone,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many requests of this workload wait as may.
    #[error("{bound} requests are waiting for this workload already")]
    QueueFull {
        /// How many may.
        bound: usize,
    },
    /// As many requests of all workloads wait as may, and as many of this one as nobody else can take from it.
    #[error(
        "{bound} requests may wait in this activator, and that is more than this workload's share of what is left"
    )]
    TooManyHeld {
        /// How many may.
        bound: u64,
    },
    /// The requests that wait keep as much memory as they may.
    #[error(
        "requests that wait may keep {bound} bytes, and this is more than the workload's share of what is left"
    )]
    TooMuchHeld {
        /// How many bytes they may keep.
        bound: u64,
    },
    /// No pod had a place in time.
    #[error("no pod of the workload could take the request within {after:?}")]
    Timeout {
        /// The time.
        after: Duration,
    },
    /// Somebody put the workload to zero, and only they take it back.
    #[error("the workload is paused: it was scaled to zero by hand and does not wake by requests")]
    Paused,
    /// Something keeps its pods from starting, and has for longer than it is worth to wait.
    #[error("the workload's pods cannot start: {}", .cause.as_str())]
    CannotStart {
        /// What it is.
        cause: StartCause,
    },
    /// The workload was deleted.
    #[error("the workload is gone")]
    Gone,
}

// === impl WorkloadThrottler ===

impl WorkloadThrottler {
    /// A workload of which no pod is known yet.
    pub fn new(key: Key, workload: Workload, shared: Arc<Shared>, neighbours: Arc<Neighbours>) -> Arc<Self> {
        let slots = PodSlots::new(key.clone(), &workload, neighbours);
        let throttler = Self {
            counter: Counter::new(key.clone()),
            queue: SlotQueue::new(slots, shared.limits.queue_depth(&workload)),
            unprobed: AtomicBool::new(false),
            standing: watch::Sender::new(Standing::Open),
            places: shared.held.join(),
            pod_starts: PodStarts::default(),
            slow_wakes: SlowWakes::default(),
            metrics: OnceLock::new(),
            workload: ArcSwap::from_pointee(workload),
            key,
            shared,
        };
        throttler.change_pods(|_| {});
        Arc::new(throttler)
    }

    /// Its name.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Its requests.
    pub fn counter(&self) -> &Arc<Counter> {
        &self.counter
    }

    /// Its handles.
    pub fn metrics(&self) -> &WorkloadMetrics {
        self.metrics.get_or_init(|| self.shared.metrics.of_workload(&self.key))
    }

    /// A request was held, and has its answer now.
    pub fn cold_start(&self, way: &ColdStart) {
        self.metrics().cold_start(way);
        if let Some(slow) = self.slow_wakes.tell(way, self.shared.limits.slow_wake, &self.key) {
            self.shared.reporter.slow_wake(slow);
        }
    }

    /// Its pods on their way.
    pub fn pod_starts(&self) -> &PodStarts {
        &self.pod_starts
    }

    /// Whether its Service leads to its pods, so that callers should connect anew.
    pub fn is_serving(&self) -> bool {
        self.workload.load().serving
    }

    /// Takes a new state of the workload in.
    pub fn update(&self, workload: Workload) {
        self.queue.set_workload(&workload, self.shared.limits.queue_depth(&workload));
        self.workload.store(Arc::new(workload));
        self.change_pods(|_| {});
    }

    /// Takes in which other activators there are.
    pub fn set_neighbours(&self, neighbours: Arc<Neighbours>) {
        self.queue.set_neighbours(neighbours);
    }

    /// Hears another activator.
    pub fn hear(&self, from: LinkId, message: Message<IpAddr>) {
        self.queue.hear(from, message);
    }

    /// Takes a new state of one of its pods in.
    pub fn set_pod(self: &Arc<Self>, name: &str, endpoint: Option<Endpoint>, now: Instant) {
        self.change_pods(|pods| match endpoint {
            Some(endpoint) => pods.put(name, endpoint, now),
            None => pods.remove(name),
        });
        self.probe_if_wanted();
    }

    /// The pod of `slot` refused the connection: no request goes to it until it answered a probe.
    pub fn set_aside(self: &Arc<Self>, slot: Slot) {
        self.change_pods(|pods| pods.set_aside(slot.pod()));
        drop(slot);
        self.probe_if_wanted();
    }

    /// The workload was deleted: whoever waits is told so.
    pub fn end(&self) {
        self.standing.send_replace(Standing::Gone);
    }

    /// How long a request may wait for a pod.
    pub fn wake_timeout(&self) -> Duration {
        self.shared.limits.wake_timeout(&self.workload.load())
    }

    /// Whether requests may come in.
    ///
    /// # Errors
    /// [`Refused::Paused`], [`Refused::CannotStart`] and [`Refused::Gone`]. Such requests are not counted, for they must not wake the workload.
    pub fn admits(&self) -> Result<(), Refused> {
        self.standing.borrow().refusal().map_or(Ok(()), Err)
    }

    /// The workload as the guard needs it, if requests are held for it and it has no pod.
    pub fn stranded(&self) -> Option<Stranded> {
        let workload = self.workload.load();
        let target =
            workload.wake_target.as_ref().filter(|_| !workload.paused && self.queue.is_stranded())?;
        Some(Stranded { key: self.key.clone(), target: target.clone() })
    }

    /// A pod for who needs no place on it.
    pub fn any_pod(&self) -> Option<Arc<PodTracker>> {
        self.queue.look_at_pods(|pods| pods.any_usable())
    }

    /// Probes pods that nobody probes, if there are requests to wait for them. To be called after a request was counted.
    pub fn probe_if_wanted(self: &Arc<Self>) {
        if !self.unprobed.load(Ordering::SeqCst) || !self.is_wanted() {
            return;
        }
        let unprobed = self.queue.look_at_pods(|pods| {
            let unprobed = pods.take_unprobed();
            self.follow(pods);
            unprobed
        });
        for pod in unprobed {
            tokio::spawn(self.clone().probe(pod));
        }
    }

    /// Waits for a place on a pod, in the order in which requests were `received`, until `deadline`; `kept` says how many
    /// bytes the request keeps meanwhile. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn throttle(
        self: &Arc<Self>,
        received: Instant,
        deadline: Instant,
        kept: impl Fn() -> u64,
    ) -> Result<Slot, Refused> {
        match self.queue.try_take() {
            Some(slot) => Ok(slot),
            None => self.wait(received, deadline, kept()).await,
        }
    }

    async fn wait(&self, received: Instant, deadline: Instant, kept: u64) -> Result<Slot, Refused> {
        let _place = self.places.take(kept).map_err(|full| {
            self.metrics().queue_full();
            Refused::from(full)
        })?;
        let _held = self.metrics().hold();
        let mut standing = self.standing.subscribe();
        tokio::select! {
            biased;
            slot = self.queue.wait(received) => slot.map_err(|full| {
                self.metrics().queue_full();
                Refused::QueueFull { bound: full.bound }
            }),
            changed = standing.wait_for(|standing| standing.refusal().is_some()) => {
                // The sender lives as long as the throttler.
                Err(changed.ok().and_then(|standing| standing.refusal()).unwrap_or(Refused::Gone))
            }
            () = tokio::time::sleep_until(deadline) => Err(self.timed_out()),
        }
    }

    /// With the cause, if one is known that was still hoped to pass.
    fn timed_out(&self) -> Refused {
        match self.workload.load().start_failure {
            Some(failure) if !self.queue.look_at_pods(|pods| pods.has_usable()) => {
                Refused::CannotStart { cause: failure.cause }
            }
            _ => Refused::Timeout { after: self.wake_timeout() },
        }
    }

    async fn probe(self: Arc<Self>, pod: Arc<PodTracker>) {
        loop {
            let address = SocketAddr::new(pod.ip, self.probe_port());
            let proven = tokio::select! {
                () = pod.gone() => return,
                proven = pod_prober::prove(&self.shared.prober, address, || self.is_wanted()) => proven,
            };
            if !proven && self.is_wanted() {
                continue;
            }
            tracing::debug!(workload = %self.key, %address, proven, "pod was probed");
            return self.change_pods(|pods| {
                if proven {
                    pods.prove(&pod, Instant::now());
                }
                pods.probe_ended(&pod);
            });
        }
    }

    fn probe_port(&self) -> u16 {
        self.workload.load().ports.first().map_or(QUEUE_PROXY_PORT, |lease| lease.pod_port)
    }

    fn is_wanted(&self) -> bool {
        self.counter.in_flight() > 0
    }

    fn change_pods(&self, change: impl FnOnce(&mut PodSet)) {
        self.queue.change_pods(|pods| {
            change(pods);
            self.follow(pods);
        });
    }

    /// Brings what follows from the pods and the workload up to date with them.
    fn follow(&self, pods: &PodSet) {
        self.unprobed.store(pods.has_unprobed(), Ordering::SeqCst);
        let now =
            if pods.has_usable() { Standing::Open } else { Standing::without_pods(&self.workload.load()) };
        self.standing.send_if_modified(|standing| {
            *standing != Standing::Gone && std::mem::replace(standing, now) != now
        });
    }
}

// === impl Standing ===

impl Standing {
    fn without_pods(workload: &Workload) -> Self {
        match workload.start_failure {
            _ if workload.paused => Self::Paused,
            Some(failure) if failure.given_up => Self::CannotStart(failure.cause),
            _ => Self::Open,
        }
    }

    fn refusal(self) -> Option<Refused> {
        match self {
            Self::Open => None,
            Self::Paused => Some(Refused::Paused),
            Self::CannotStart(cause) => Some(Refused::CannotStart { cause }),
            Self::Gone => Some(Refused::Gone),
        }
    }
}

// === impl Refused ===

impl From<Full> for Refused {
    fn from(full: Full) -> Self {
        match full {
            Full::Places(bound) => Self::TooManyHeld { bound },
            Full::Bytes(bound) => Self::TooMuchHeld { bound },
        }
    }
}
