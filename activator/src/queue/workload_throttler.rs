//! WorkloadThrottler: holds the requests of one workload until one of its pods has a slot for them.
//!
//! Input: requests from the listeners; pods and settings from the
//! [`Throttler`](crate::throttler::Throttler). The [`SlotQueue`] keeps the order and grants the
//! slots. This decides for how long requests may wait, and joins the parts of the workload:
//!
//! ```text
//!  connection ─► WorkloadMemory     request ─► AdmissionGate ─► SlotQueue ─► pod
//!                                      └─► WorkloadProber ─► WorkloadPods ──┘
//! ```
//!
//! Knative calls this the revision throttler.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use autoscaler::Key;
use autoscaler::history::FirstRequest;
use autoscaler::routing::slot_lending::SlotMessage;
use component_base::clock::unix_millis;
use proxy::health_checks::uncounted_places;
use proxy::timeouts::request_timer::RequestTimer;
use tokio::time::Instant;

use crate::fallback_waker::StrandedWorkload;
use crate::metrics::workload::{LazyMetrics, WorkloadMetrics};
use crate::pods::pod_tracker::{PodTracker, UncountedOnPod};
use crate::queue::cold_starts::ColdStarts;
use crate::queue::context::ThrottlerContext;
use crate::queue::rejection::Rejection;
use crate::queue::slot_queue::{SlotPermit, SlotQueue};
use crate::queue::workload_memory::WorkloadMemory;
use crate::queue::workload_pods::WorkloadPods;
use crate::queue::workload_prober::WorkloadProber;
use crate::queue::workload_timers::WorkloadTimers;
use crate::reports::pod_observer::ObservedRequest;
use crate::reports::request_counter::{CountedRequest, RequestCounter};
use crate::slots::pod_slots::PodSlots;
use crate::slots::slot_link::LinkId;
use crate::slots::slot_peers::SlotPeers;
use crate::workloads::{PodEndpoint, Workload};

/// One workload, with the requests that wait for it or run on it from this activator.
#[derive(Debug)]
pub struct WorkloadThrottler {
    context: Arc<ThrottlerContext>,
    counter: Arc<RequestCounter>,
    pods: Arc<WorkloadPods>,
    prober: WorkloadProber,
    memory: WorkloadMemory,
    cold_starts: ColdStarts,
    timers: WorkloadTimers,
    metrics: Arc<LazyMetrics>,
}

/// Each pod has as many requests that are not counted as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

// === impl WorkloadThrottler ===

impl WorkloadThrottler {
    /// A workload without pods.
    pub fn new(
        key: Key,
        workload: Workload,
        context: Arc<ThrottlerContext>,
        peers: Arc<SlotPeers>,
    ) -> Arc<Self> {
        let counter = RequestCounter::new(key.clone());
        counter.pods().set(workload.observation);
        let slots = PodSlots::new(key.clone(), &workload, peers);
        let queue = SlotQueue::new(slots, context.limits.queue_depth(&workload));
        let timers = WorkloadTimers::new(workload.timeouts, context.workers);
        let metrics = Arc::new(context.metrics.of_workload(&key));
        let account = context.memory.join(&key.namespace);
        let pods = Arc::new(WorkloadPods::new(key, workload, queue));
        Arc::new(Self {
            prober: WorkloadProber::new(context.clone(), counter.clone(), pods.clone()),
            memory: WorkloadMemory::new(account, metrics.clone()),
            cold_starts: ColdStarts::new(context.clone(), counter.clone(), pods.clone(), metrics.clone()),
            context,
            counter,
            pods,
            timers,
            metrics,
        })
    }

    pub fn key(&self) -> &Key {
        self.pods.key()
    }

    /// The workload's settings.
    pub fn settings(&self) -> Guard<Arc<Workload>> {
        self.pods.settings()
    }

    /// What its connections and requests take of the memory budget.
    pub fn memory(&self) -> &WorkloadMemory {
        &self.memory
    }

    /// Probes its pods.
    pub fn prober(&self) -> &WorkloadProber {
        &self.prober
    }

    /// What its held requests waited for.
    pub fn cold_starts(&self) -> &ColdStarts {
        &self.cold_starts
    }

    /// The workload's metrics.
    pub fn metrics(&self) -> &WorkloadMetrics {
        self.metrics.get()
    }

    /// Counts a request in; the first of an idle workload pokes, and is reported as `describe`
    /// returns it.
    pub fn count_request(&self, describe: impl FnOnce() -> Option<FirstRequest>) -> CountedRequest {
        self.context.reporter.request_in(&self.counter, describe)
    }

    /// Observes a request that is sent to this pod, if a target is learned from it.
    pub fn observe(&self, pod: &PodTracker) -> Option<Box<ObservedRequest>> {
        self.counter.pods().enter(pod.ip)
    }

    /// Applies a new state of the workload.
    pub fn update(&self, workload: Workload) {
        self.timers.set(workload.timeouts);
        self.counter.pods().set(workload.observation);
        let bound = self.context.limits.queue_depth(&workload);
        self.pods.set_settings(workload, bound);
    }

    /// Sets the other activators.
    pub fn set_peers(&self, peers: Arc<SlotPeers>) {
        self.pods.queue().set_peers(peers);
    }

    /// Applies a message of another activator.
    pub fn receive(&self, from: LinkId, message: SlotMessage<IpAddr>) {
        self.pods.queue().receive(from, message);
    }

    /// Applies a new state of one pod; `None` if it takes no requests any more.
    pub fn set_pod(&self, name: &str, endpoint: Option<PodEndpoint>, now: Instant) {
        self.pods.change(|pods| match endpoint {
            Some(endpoint) => pods.put(name, endpoint, now),
            None => pods.remove(name),
        });
        self.prober.probe_if_wanted();
    }

    /// Ejects the pod of `slot`, which refused a connection, until it answers a probe.
    pub fn eject(&self, slot: SlotPermit) {
        self.pods.change(|pods| pods.eject(slot.pod()));
        drop(slot);
        self.prober.probe_if_wanted();
    }

    /// Rejects requests from now on, and those that wait.
    pub fn close(&self, rejection: Rejection) {
        self.pods.admission().close(rejection);
    }

    /// How long a request may wait for a pod.
    pub fn wake_timeout(&self) -> Duration {
        self.context.limits.wake_timeout(&self.settings())
    }

    /// The timer of a request on this worker.
    pub fn start_timer(&self, worker: usize, now: Instant) -> RequestTimer {
        self.timers.start(worker, now)
    }

    /// Whether requests may wait. A rejected request must not be counted, for it must not wake the
    /// workload.
    ///
    /// # Errors
    /// See [`AdmissionGate::check`](crate::queue::admission::AdmissionGate::check).
    pub fn check_admission(&self) -> Result<(), Rejection> {
        self.pods.admission().check()
    }

    /// The workload for the fallback waker, if requests are held for it and it has no pod.
    pub fn stranded(&self) -> Option<StrandedWorkload> {
        let workload = self.settings();
        let is_stranded =
            |_: &_| !workload.pause.is_in_force(unix_millis()) && self.pods.queue().is_stranded();
        let target = workload.wake_target.as_ref().filter(is_stranded)?;
        Some(StrandedWorkload { key: self.key().clone(), target: target.clone() })
    }

    /// A usable pod, for a request that needs no slot.
    pub fn any_pod(&self) -> Option<Arc<PodTracker>> {
        self.pods.queue().with_pods(|pods| pods.any_usable())
    }

    /// The place of a request that is not counted, on a usable pod if there is one.
    ///
    /// # Errors
    /// When each pod has as many of these as it may; the request counts like any other then.
    pub fn enter_uncounted(&self) -> Result<Option<UncountedOnPod>, NoPlace> {
        let of_workload = NonZeroU32::new(self.settings().container_concurrency);
        let places = |pod: &PodTracker| {
            uncounted_places(pod.limit().or(of_workload).map(|limit| limit.get() as usize))
        };
        self.pods.queue().with_pods(|pods| {
            let entered = pods.usable().iter().find_map(|pod| pod.enter_uncounted(places(pod)));
            if entered.is_none() && pods.has_usable() { Err(NoPlace) } else { Ok(entered) }
        })
    }

    /// Waits for a slot, in the order in which requests were `received`, until `deadline`;
    /// `held` returns the bytes that the request takes meanwhile. Dropping the future leaves the
    /// queue at once.
    ///
    /// # Errors
    /// See [`Rejection`].
    pub async fn acquire(
        &self,
        received: Instant,
        deadline: Instant,
        held: impl Fn() -> u64,
    ) -> Result<SlotPermit, Rejection> {
        match self.pods.queue().try_acquire() {
            Some(slot) => Ok(slot),
            None => self.hold(received, deadline, held()).await,
        }
    }

    async fn hold(&self, received: Instant, deadline: Instant, bytes: u64) -> Result<SlotPermit, Rejection> {
        let _memory = self.memory.take(bytes)?;
        let _held = self.metrics().hold();
        tokio::select! {
            biased;
            slot = self.pods.queue().acquire(received) => slot.map_err(|full| {
                self.metrics().queue_full();
                Rejection::QueueFull { bound: full.bound }
            }),
            rejection = self.pods.admission().rejected() => Err(rejection),
            () = tokio::time::sleep_until(deadline) => Err(self.timed_out()),
        }
    }

    /// Whether the address is one of its pods, usable or not.
    pub fn has_pod_at(&self, address: IpAddr) -> bool {
        self.pods.queue().with_pods(|pods| pods.addresses().any(|pod| pod == address))
    }

    /// Includes the cause if pods fail to start and the zero-scaler has not given up yet.
    fn timed_out(&self) -> Rejection {
        match &self.settings().start_failure {
            Some(failure) if !self.pods.queue().with_pods(|pods| pods.has_usable()) => {
                Rejection::CannotStart { failure: failure.clone() }
            }
            _ => Rejection::WakeTimeout { after: self.wake_timeout() },
        }
    }
}
