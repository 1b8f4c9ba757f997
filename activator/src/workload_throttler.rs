//! WorkloadThrottler: holds the requests of one workload until one of its pods has a place for them.
//!
//! The breaker limits the workload to what its usable pods take together (nothing, while there is none) and keeps the
//! others waiting in order; the [`PodSet`] then gives each its pod. What changes the pods, and the end of a request on a
//! pod that left, counts the capacity anew under the one lock.
//!
//! Knative calls this the revision throttler.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use autoscaler::Key;
use autoscaler::breaker::{Breaker, Limit, Permit};
use autoscaler::contract::QUEUE_PROXY_PORT;
use autoscaler::pod_start::StartCause;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cold_start::{ColdStart, SlowWakes};
use crate::concurrency_reporter::Counter;
use crate::held_places::{Full, WorkloadPlaces};
use crate::metrics::WorkloadMetrics;
use crate::pod_prober;
use crate::pod_set::PodSet;
use crate::pod_starts::PodStarts;
use crate::pod_tracker::PodTracker;
use crate::throttler::Shared;
use crate::workloads::{Endpoint, Workload};

/// One workload and everything that waits for it or runs on it from here.
#[derive(Debug)]
pub struct WorkloadThrottler {
    key: Key,
    shared: Arc<Shared>,
    workload: ArcSwap<Workload>,
    counter: Arc<Counter>,
    breaker: Breaker,
    pods: Mutex<PodSet>,
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

/// A place on a pod. Given back when dropped.
#[derive(Debug)]
pub struct Slot {
    workload: Arc<WorkloadThrottler>,
    pod: Arc<PodTracker>,
    on_pod: Option<Permit>,
    /// Released last: the next request must find the place on the pod free.
    _of_workload: Permit,
    waited: bool,
}

// === impl WorkloadThrottler ===

impl WorkloadThrottler {
    /// A workload of which no pod is known yet.
    pub fn new(key: Key, workload: Workload, shared: Arc<Shared>) -> Arc<Self> {
        let throttler = Self {
            counter: Counter::new(key.clone()),
            breaker: Breaker::new(Limit::AtMost(0), shared.limits.queue_depth(&workload)),
            pods: Mutex::new(PodSet::new(workload.container_concurrency)),
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
        throttler.recount(&mut throttler.lock());
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
        self.slow_wakes.tell(way, self.shared.limits.slow_wake, &self.key);
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
        let mut pods = self.lock();
        pods.set_container_concurrency(workload.container_concurrency);
        self.breaker.set_queue_bound(self.shared.limits.queue_depth(&workload));
        self.workload.store(Arc::new(workload));
        self.recount(&mut pods);
    }

    /// Takes a new state of one of its pods in.
    pub fn set_pod(self: &Arc<Self>, name: &str, endpoint: Option<Endpoint>, now: Instant) {
        {
            let mut pods = self.lock();
            match endpoint {
                Some(endpoint) => pods.put(name, endpoint, now),
                None => pods.remove(name),
            }
            self.recount(&mut pods);
        }
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

    /// A pod for who needs no place on it.
    pub fn any_pod(&self) -> Option<Arc<PodTracker>> {
        self.lock().any_usable()
    }

    /// Probes pods that nobody probes, if there are requests to wait for them. To be called after a request was counted.
    pub fn probe_if_wanted(self: &Arc<Self>) {
        if !self.unprobed.load(Ordering::SeqCst) || !self.is_wanted() {
            return;
        }
        let pods = {
            let mut pods = self.lock();
            let unprobed = pods.take_unprobed();
            self.recount(&mut pods);
            unprobed
        };
        for pod in pods {
            tokio::spawn(self.clone().probe(pod));
        }
    }

    /// Waits for a place on a pod, until `deadline`; `kept` says how many bytes the request keeps meanwhile. Dropping the
    /// future leaves the queue at once.
    ///
    /// # Errors
    /// See [`Refused`].
    pub async fn throttle(
        self: &Arc<Self>,
        deadline: Instant,
        kept: impl Fn() -> u64,
    ) -> Result<Slot, Refused> {
        let mut waited = false;
        loop {
            let permit = match self.breaker.try_acquire() {
                Some(permit) => permit,
                None => {
                    waited = true;
                    self.wait(deadline, kept()).await?
                }
            };
            let picked = self.lock().pick(&mut rand::rng());
            // Without a pick, pods left between the grant and now, and the capacity is smaller already.
            if let Some((pod, on_pod)) = picked {
                let workload = self.clone();
                return Ok(Slot { workload, pod, on_pod: Some(on_pod), _of_workload: permit, waited });
            }
        }
    }

    async fn wait(&self, deadline: Instant, kept: u64) -> Result<Permit, Refused> {
        let _place = self.places.take(kept).map_err(|full| {
            self.metrics().queue_full();
            Refused::from(full)
        })?;
        let _held = self.metrics().hold();
        let mut standing = self.standing.subscribe();
        tokio::select! {
            biased;
            permit = self.breaker.acquire() => permit.map_err(|full| {
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
            Some(failure) if !self.lock().has_usable() => Refused::CannotStart { cause: failure.cause },
            _ => Refused::Timeout { after: self.wake_timeout() },
        }
    }

    async fn probe(self: Arc<Self>, pod: Arc<PodTracker>) {
        loop {
            let address = SocketAddr::new(pod.ip, self.probe_port());
            let proven = tokio::select! {
                () = pod.gone() => return,
                proven = pod_prober::prove(&self.shared.forwarder, address, || self.is_wanted()) => proven,
            };
            let mut pods = self.lock();
            if proven {
                tracing::debug!(workload = %self.key, %address, "pod takes requests");
                pods.prove(&pod, Instant::now());
            } else if self.is_wanted() {
                continue;
            }
            pods.probe_ended(&pod);
            self.recount(&mut pods);
            return;
        }
    }

    fn probe_port(&self) -> u16 {
        self.workload.load().ports.first().map_or(QUEUE_PROXY_PORT, |lease| lease.pod_port)
    }

    fn is_wanted(&self) -> bool {
        self.counter.in_flight() > 0
    }

    /// Brings everything that follows from the pods and the workload up to date with them.
    fn recount(&self, pods: &mut PodSet) {
        self.unprobed.store(pods.has_unprobed(), Ordering::SeqCst);
        let now =
            if pods.has_usable() { Standing::Open } else { Standing::without_pods(&self.workload.load()) };
        self.standing.send_if_modified(|standing| {
            *standing != Standing::Gone && std::mem::replace(standing, now) != now
        });
        self.breaker.set_limit(pods.capacity());
    }

    fn lock(&self) -> MutexGuard<'_, PodSet> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
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

// === impl Slot ===

impl Slot {
    /// The pod.
    pub fn pod(&self) -> &PodTracker {
        &self.pod
    }

    /// Whether the request had to wait for it.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// The pod refused the connection: no request goes to it until it answered a probe.
    pub fn set_pod_aside(self) {
        let workload = self.workload.clone();
        {
            let mut pods = workload.lock();
            pods.set_aside(&self.pod);
            workload.recount(&mut pods);
        }
        drop(self);
        workload.probe_if_wanted();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.on_pod = None;
        if !self.pod.is_usable() {
            let mut pods = self.workload.lock();
            self.workload.recount(&mut pods);
        }
    }
}
