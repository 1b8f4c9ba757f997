//! WorkloadThrottler: holds the requests of one workload until one of its pods has a slot for them.
//!
//! Input: requests from the listeners; pods and settings from the
//! [`Throttler`](crate::throttler::Throttler). The [`SlotQueue`] keeps the order and grants the
//! slots. This decides which requests may wait and for how long, and probes pods that are not
//! verified.
//!
//! Knative calls this the revision throttler.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use autoscaler::Key;
use autoscaler::routing::slot_lending::SlotMessage;
use autoscaler::scaling::pod_start::StartCause;
use autoscaler::stats::WakeReport;
use http::Request;
use proxy::memory::budget::{BudgetExceeded, MemoryAccount, MemoryPermit};
use proxy::memory::estimates::{CONNECTION_BYTES, HTTP2_BYTES};
use proxy::memory::open_connections::ConnectionPlace;
use proxy::timeouts::request_timer::RequestTimer;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::fallback_waker::StrandedWorkload;
use crate::metrics::workload::WorkloadMetrics;
use crate::pods::pod_set::PodSet;
use crate::pods::pod_starts::PodStarts;
use crate::pods::pod_tracker::PodTracker;
use crate::pods::prober;
use crate::queue::context::ThrottlerContext;
use crate::queue::rejection::Rejection;
use crate::queue::slot_queue::{SlotPermit, SlotQueue};
use crate::queue::workload_timers::WorkloadTimers;
use crate::reports::cold_start::{ColdStartTrace, SlowWakeReporter, WakeReporter};
use crate::reports::pod_observer::ObservedRequest;
use crate::reports::request_counter::{CountedRequest, RequestCounter};
use crate::slots::pod_slots::PodSlots;
use crate::slots::slot_link::LinkId;
use crate::slots::slot_peers::SlotPeers;
use crate::workloads::no_wake::NoWake;
use crate::workloads::{PodEndpoint, Workload};

/// One workload, with the requests that wait for it or run on it from this activator.
#[derive(Debug)]
pub struct WorkloadThrottler {
    key: Key,
    context: Arc<ThrottlerContext>,
    workload: ArcSwap<Workload>,
    counter: Arc<RequestCounter>,
    queue: Arc<SlotQueue>,
    /// Whether a pod is neither usable nor being probed. Read by every request, written with the
    /// pods.
    has_unprobed: AtomicBool,
    admission: watch::Sender<Admission>,
    memory: Arc<MemoryAccount>,
    pod_starts: PodStarts,
    slow_wakes: SlowWakeReporter,
    wakes: WakeReporter,
    timers: WorkloadTimers,
    metrics: OnceLock<WorkloadMetrics>,
}

/// Whether requests may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Open,
    Paused,
    CannotStart(StartCause),
    Deleted,
}

// === impl WorkloadThrottler ===

impl WorkloadThrottler {
    /// A workload without pods.
    pub fn new(
        key: Key,
        workload: Workload,
        context: Arc<ThrottlerContext>,
        peers: Arc<SlotPeers>,
    ) -> Arc<Self> {
        let slots = PodSlots::new(key.clone(), &workload, peers);
        let throttler = Self {
            counter: RequestCounter::new(key.clone()),
            queue: SlotQueue::new(slots, context.limits.queue_depth(&workload)),
            has_unprobed: AtomicBool::new(false),
            admission: watch::Sender::new(Admission::Open),
            memory: context.memory.join(&key.namespace),
            pod_starts: PodStarts::default(),
            slow_wakes: SlowWakeReporter::default(),
            wakes: WakeReporter::default(),
            timers: WorkloadTimers::new(workload.timeouts, context.workers),
            metrics: OnceLock::new(),
            workload: ArcSwap::from_pointee(workload),
            key,
            context,
        };
        throttler.counter.pods().set(throttler.workload.load().observation);
        throttler.change_pods(|_| {});
        Arc::new(throttler)
    }

    /// The workload's name.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Counts a request in; the first of an idle workload pokes.
    pub fn count_request(&self) -> CountedRequest {
        self.context.reporter.request_in(&self.counter)
    }

    /// Observes a request that is sent to this pod, if a target is learned from it.
    pub fn observe(&self, pod: &PodTracker) -> Option<Box<ObservedRequest>> {
        self.counter.pods().enter(pod.ip)
    }

    /// The workload's metrics.
    pub fn metrics(&self) -> &WorkloadMetrics {
        self.metrics.get_or_init(|| self.context.metrics.of_workload(&self.key))
    }

    /// Traces a request that was held and is answered now; returns the trace for its client.
    pub fn trace_cold_start(
        &self,
        received: Instant,
        pod: &PodTracker,
        forwarded: Instant,
    ) -> ColdStartTrace {
        let (poke, start) = (self.counter.poke(), self.pod_starts.of(&pod.uid));
        let trace = ColdStartTrace::of(received, poke, start, pod, forwarded);
        self.metrics().cold_start(&trace);
        if let Some(slow) = self.slow_wakes.check(&trace, self.context.limits.slow_wake, &self.key) {
            self.context.reporter.slow_wake(slow);
        }
        let had_no_pod = || self.queue.with_pods(|pods| pods.are_all_newer_than(received));
        if self.wakes.is_first(&trace, had_no_pod) {
            let wake = trace.wake(component_base::clock::unix_millis());
            self.context.reporter.wake(WakeReport { key: self.key.clone(), wake });
        }
        trace
    }

    /// Pods that had no address when they were seen first.
    pub fn pod_starts(&self) -> &PodStarts {
        &self.pod_starts
    }

    /// Whether the workload's Service leads to its pods, so that clients should connect again.
    pub fn is_serving(&self) -> bool {
        self.workload.load().serving
    }

    /// The rules that exclude the request from the load, if one of them matches it.
    pub fn no_wake<B>(&self, request: &Request<B>) -> Option<Arc<NoWake>> {
        self.workload.load().no_wake.as_ref().filter(|no_wake| no_wake.matches(request)).cloned()
    }

    /// Whether browsers get a page while there is no pod.
    pub fn has_waiting_page(&self) -> bool {
        self.workload.load().waiting_page
    }

    /// Applies a new state of the workload.
    pub fn update(&self, workload: Workload) {
        self.queue.set_workload(&workload, self.context.limits.queue_depth(&workload));
        self.timers.set(workload.timeouts);
        self.counter.pods().set(workload.observation);
        self.workload.store(Arc::new(workload));
        self.change_pods(|_| {});
    }

    /// Sets the other activators.
    pub fn set_peers(&self, peers: Arc<SlotPeers>) {
        self.queue.set_peers(peers);
    }

    /// Applies a message of another activator.
    pub fn receive(&self, from: LinkId, message: SlotMessage<IpAddr>) {
        self.queue.receive(from, message);
    }

    /// Applies a new state of one pod; `None` if it takes no requests any more.
    pub fn set_pod(self: &Arc<Self>, name: &str, endpoint: Option<PodEndpoint>, now: Instant) {
        self.change_pods(|pods| match endpoint {
            Some(endpoint) => pods.put(name, endpoint, now),
            None => pods.remove(name),
        });
        self.probe_if_wanted();
    }

    /// Ejects the pod of `slot`, which refused a connection, until it answers a probe.
    pub fn eject(self: &Arc<Self>, slot: SlotPermit) {
        self.change_pods(|pods| pods.eject(slot.pod()));
        drop(slot);
        self.probe_if_wanted();
    }

    /// Rejects requests from now on, and those that wait: the workload was deleted.
    pub fn close(&self) {
        self.admission.send_replace(Admission::Deleted);
    }

    /// How long a request may wait for a pod.
    pub fn wake_timeout(&self) -> Duration {
        self.context.limits.wake_timeout(&self.workload.load())
    }

    /// Silence after which a TCP connection is closed; `None` if its sidecar does that.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.workload.load().timeouts.idle()
    }

    /// The timer of a request on this worker.
    pub fn start_timer(&self, worker: usize, now: Instant) -> RequestTimer {
        self.timers.start(worker, now)
    }

    /// Whether requests may wait. A rejected request must not be counted, for it must not wake the
    /// workload.
    ///
    /// # Errors
    /// [`Rejection::Paused`], [`Rejection::CannotStart`] and [`Rejection::WorkloadDeleted`].
    pub fn check_admission(&self) -> Result<(), Rejection> {
        self.admission.borrow().rejection().map_or(Ok(()), Err)
    }

    /// Takes the memory of a TCP connection; `None` if it must be closed.
    pub fn admit_connection(&self) -> Option<MemoryPermit> {
        self.count_refusal(self.memory.take(CONNECTION_BYTES))
    }

    /// Takes the memory of an HTTP connection; `None` if it must be closed.
    pub fn admit_http_connection(&self) -> Option<ConnectionPlace<MemoryPermit>> {
        self.count_refusal(self.memory.admit(CONNECTION_BYTES))
    }

    /// Takes what a connection needs more for HTTP/2; `None` if it must be closed.
    pub fn admit_http2(&self) -> Option<MemoryPermit> {
        self.count_refusal(self.memory.take(HTTP2_BYTES))
    }

    fn count_refusal<T>(&self, taken: Result<T, BudgetExceeded>) -> Option<T> {
        taken.inspect_err(|_| self.metrics().connection_refused()).ok()
    }

    /// Takes memory of a request.
    ///
    /// # Errors
    /// [`Rejection::ActivatorMemoryFull`].
    pub fn take_memory(&self, bytes: u64) -> Result<MemoryPermit, Rejection> {
        self.memory.take(bytes).map_err(|exceeded| {
            self.metrics().request_refused();
            Rejection::ActivatorMemoryFull { bound: exceeded.bound }
        })
    }

    /// The workload for the fallback waker, if requests are held for it and it has no pod.
    pub fn stranded(&self) -> Option<StrandedWorkload> {
        let workload = self.workload.load();
        let target =
            workload.wake_target.as_ref().filter(|_| !workload.paused && self.queue.is_stranded())?;
        Some(StrandedWorkload { key: self.key.clone(), target: target.clone() })
    }

    /// A usable pod, for a request that needs no slot.
    pub fn any_pod(&self) -> Option<Arc<PodTracker>> {
        self.queue.with_pods(|pods| pods.any_usable())
    }

    /// Starts probes of pods that are not usable, if there are requests for them. To be called
    /// after a request was counted.
    pub fn probe_if_wanted(self: &Arc<Self>) {
        if !self.has_unprobed.load(Ordering::SeqCst) || !self.is_wanted() {
            return;
        }
        let unprobed = self.queue.with_pods(|pods| {
            let unprobed = pods.take_unprobed();
            self.refresh(pods);
            unprobed
        });
        for pod in unprobed {
            tokio::spawn(self.clone().probe(pod));
        }
    }

    /// Waits for a slot, in the order in which requests were `received`, until `deadline`;
    /// `held` returns the bytes that the request takes meanwhile. Dropping the future leaves the
    /// queue at once.
    ///
    /// # Errors
    /// See [`Rejection`].
    pub async fn acquire(
        self: &Arc<Self>,
        received: Instant,
        deadline: Instant,
        held: impl Fn() -> u64,
    ) -> Result<SlotPermit, Rejection> {
        match self.queue.try_acquire() {
            Some(slot) => Ok(slot),
            None => self.hold(received, deadline, held()).await,
        }
    }

    async fn hold(&self, received: Instant, deadline: Instant, bytes: u64) -> Result<SlotPermit, Rejection> {
        let _memory = self.take_memory(bytes)?;
        let _held = self.metrics().hold();
        let mut admission = self.admission.subscribe();
        tokio::select! {
            biased;
            slot = self.queue.acquire(received) => slot.map_err(|full| {
                self.metrics().queue_full();
                Rejection::QueueFull { bound: full.bound }
            }),
            changed = admission.wait_for(|admission| admission.rejection().is_some()) => {
                // The sender lives as long as the throttler.
                let rejection = changed.ok().and_then(|admission| admission.rejection());
                Err(rejection.unwrap_or(Rejection::WorkloadDeleted))
            }
            () = tokio::time::sleep_until(deadline) => Err(self.timed_out()),
        }
    }

    /// Includes the cause if pods fail to start and the zero-scaler has not given up yet.
    fn timed_out(&self) -> Rejection {
        match self.workload.load().start_failure {
            Some(failure) if !self.queue.with_pods(|pods| pods.has_usable()) => {
                Rejection::CannotStart { cause: failure.cause }
            }
            _ => Rejection::WakeTimeout { after: self.wake_timeout() },
        }
    }

    #[tracing::instrument(level = "debug", skip_all, fields(workload = %self.key, pod = %pod.ip))]
    async fn probe(self: Arc<Self>, pod: Arc<PodTracker>) {
        loop {
            let queue_proxy = pod.queue_proxy(self.workload.load().ports.first());
            let verified = tokio::select! {
                () = pod.removed() => return,
                verified = prober::probe_until_ready(&self.context.prober, &pod, queue_proxy, || self.is_wanted()) => verified,
            };
            if !verified && self.is_wanted() && pod.probe().is_some() {
                continue;
            }
            tracing::debug!(verified, "probe ended");
            self.change_pods(|pods| {
                if verified {
                    pods.mark_usable(&pod, Instant::now());
                }
                pods.probe_ended(&pod);
            });
            // It may have got a probe since, while it still counted as probed.
            return self.probe_if_wanted();
        }
    }

    fn is_wanted(&self) -> bool {
        self.counter.in_flight() > 0
    }

    fn change_pods(&self, change: impl FnOnce(&mut PodSet)) {
        self.queue.change_pods(|pods| {
            change(pods);
            self.refresh(pods);
        });
    }

    /// Updates what is derived from the pods and the workload.
    fn refresh(&self, pods: &PodSet) {
        self.has_unprobed.store(pods.has_unprobed(), Ordering::SeqCst);
        let now =
            if pods.has_usable() { Admission::Open } else { Admission::without_pods(&self.workload.load()) };
        self.admission.send_if_modified(|admission| {
            *admission != Admission::Deleted && std::mem::replace(admission, now) != now
        });
    }
}

// === impl Admission ===

impl Admission {
    fn without_pods(workload: &Workload) -> Self {
        match workload.start_failure {
            _ if workload.paused => Self::Paused,
            Some(failure) if failure.given_up => Self::CannotStart(failure.cause),
            _ => Self::Open,
        }
    }

    fn rejection(self) -> Option<Rejection> {
        match self {
            Self::Open => None,
            Self::Paused => Some(Rejection::Paused),
            Self::CannotStart(cause) => Some(Rejection::CannotStart { cause }),
            Self::Deleted => Some(Rejection::WorkloadDeleted),
        }
    }
}
