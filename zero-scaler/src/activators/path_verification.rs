//! Verifies that activators are in the path of workloads that are about to go to zero.
//!
//! Input: a reconcile of such a workload, with the addresses of its Service. The probes run in a
//! task of their own, and their end triggers another reconcile, which reads the result.
//!
//! Reconciles never wait for probes: a probe times out after half a second, and a network policy
//! may make the probes of a thousand workloads time out. Failed verifications are retried with
//! growing delays.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use component_base::retry;
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::activators::path_probe::{PathProber, ProbeError, ProbedAddress, verify_path};
use crate::cache::work_queue::WorkQueue;

/// Workloads whose paths are probed at a time; further ones are queued.
const CONCURRENCY: usize = 64;
/// Longest age of a success that allows zero.
const MAX_AGE: Duration = Duration::from_secs(2);
/// Delay before the first retry.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest delay between retries.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Verifications of all workloads that are about to go to zero.
pub struct PathVerifications {
    prober: Arc<dyn PathProber>,
    queue: Arc<WorkQueue>,
    probes: IntCounterVec,
    permits: Arc<Semaphore>,
    pending: Mutex<HashMap<Key, PendingVerification>>,
}

/// What to verify.
#[derive(Clone, Debug, PartialEq)]
pub struct VerificationRequest {
    /// The Service's addresses, which all have to lead to activators.
    pub addresses: Vec<ProbedAddress>,
    /// Whether Rouse manages the Service's endpoints.
    pub is_managed: bool,
}

/// The state of a workload's verification.
#[derive(Clone, Debug, Default)]
pub struct PathVerification {
    /// The last result; `None` before the first.
    pub result: Option<Result<(), PathError>>,
    /// When to reconcile again; `None` if the end of the probes triggers it.
    pub retry_after: Option<Duration>,
}

/// Why a path is not verified. Its text is the message of condition ActivatorInPath.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PathError {
    /// The workload's Service does not exist.
    #[error("Service {0:?} does not exist; create it")]
    NoService(String),
    /// A setting of the Service keeps activators out of the path; the message includes the fix.
    #[error("{0}")]
    Blocked(String),
    /// The Service has no address to probe.
    #[error("the Service has no cluster IP to probe; use one of type ClusterIP")]
    NoClusterIp,
    /// The Service has no port to probe.
    #[error("the Service has no TCP port to probe; add one")]
    NoTcpPort,
    /// A port has no lease, so no activator listens for it.
    #[error("port {0} of the Service has no activator port yet")]
    PortNotLeased(i32),
    /// A probe failed. Shared, because several reconciles read one result.
    #[error("no activator in the path of the Service: {0}")]
    Probe(#[from] Arc<ProbeError>),
}

/// A verification that runs, or whose result was not read yet.
struct PendingVerification {
    request: VerificationRequest,
    /// Consecutive failures before this verification.
    failures: u32,
    /// The error of the last failed probe.
    last_error: Option<PathError>,
    slot: ResultSlot,
    _task: AbortOnDropHandle<()>,
}

/// Empty while the probes run.
type ResultSlot = Arc<Mutex<Option<TimedResult>>>;

#[derive(Clone)]
struct TimedResult {
    at: Instant,
    result: Result<(), PathError>,
}

// === impl PathVerifications ===

impl fmt::Debug for PathVerifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathVerifications").finish_non_exhaustive()
    }
}

impl PathVerifications {
    /// The end of a verification is counted in `probes`, and enqueues the workload in `queue`.
    pub fn new(prober: Arc<dyn PathProber>, queue: Arc<WorkQueue>, probes: IntCounterVec) -> Self {
        let permits = Arc::new(Semaphore::new(CONCURRENCY));
        Self { prober, queue, probes, permits, pending: Mutex::default() }
    }

    /// Returns the last result, and starts a verification if one is due. A success is returned
    /// once.
    pub fn check(&self, key: &Key, request: VerificationRequest) -> PathVerification {
        let mut pending = self.pending.lock();
        let Some(last) = pending.remove(key).filter(|last| last.request == request) else {
            pending.insert(key.clone(), self.start(key, request, 0, None));
            return PathVerification::default();
        };
        let timed = last.slot.lock().clone();
        match timed {
            None => {
                let result = last.last_error.clone().map(Err);
                pending.insert(key.clone(), last);
                PathVerification { result, retry_after: None }
            }
            Some(TimedResult { at, result: Ok(()) }) if at.elapsed() <= MAX_AGE => {
                PathVerification { result: Some(Ok(())), retry_after: None }
            }
            Some(TimedResult { result: Ok(()), .. }) => {
                pending.insert(key.clone(), self.start(key, request, 0, None));
                PathVerification::default()
            }
            Some(TimedResult { at, result: Err(error) }) => {
                let delay = retry::delay_after(last.failures, FIRST_RETRY, LONGEST_RETRY);
                let remaining = delay.saturating_sub(at.elapsed());
                let is_due = remaining.is_zero();
                let next = if is_due {
                    self.start(key, request, last.failures.saturating_add(1), Some(error.clone()))
                } else {
                    last
                };
                pending.insert(key.clone(), next);
                PathVerification { result: Some(Err(error)), retry_after: (!is_due).then_some(remaining) }
            }
        }
    }

    /// Aborts the verification of a workload that stays above zero.
    pub fn cancel(&self, key: &Key) {
        self.pending.lock().remove(key);
    }

    /// Drops workloads that no longer exist. Call it periodically.
    pub fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.pending.lock().retain(|key, _| exists(key));
    }

    fn start(
        &self,
        key: &Key,
        request: VerificationRequest,
        failures: u32,
        last_error: Option<PathError>,
    ) -> PendingVerification {
        let slot = ResultSlot::default();
        let task = tokio::spawn(self.verify(key.clone(), request.clone(), slot.clone()));
        PendingVerification { request, failures, last_error, slot, _task: AbortOnDropHandle::new(task) }
    }

    fn verify(
        &self,
        key: Key,
        request: VerificationRequest,
        slot: ResultSlot,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (prober, queue) = (self.prober.clone(), self.queue.clone());
        let (probes, permits) = (self.probes.clone(), self.permits.clone());
        async move {
            let Ok(_permit) = permits.acquire().await else { return };
            let VerificationRequest { addresses, is_managed } = request;
            let result = verify_path(prober.as_ref(), &addresses, &key, is_managed).await;
            probes.with_label_values(&[if result.is_ok() { "passed" } else { "failed" }]).inc();
            let result = result.map_err(|error| PathError::from(Arc::new(error)));
            *slot.lock() = Some(TimedResult { at: Instant::now(), result });
            queue.enqueue(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use autoscaler::Protocol;
    use futures::future::BoxFuture;
    use futures::{FutureExt, StreamExt, pin_mut};
    use prometheus::Opts;
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::activators::path_probe::ProbeError;

    /// A network in which probes time out until `open` is set.
    #[derive(Debug, Default)]
    struct FakeNetwork {
        open: AtomicBool,
        probes: AtomicUsize,
    }

    impl PathProber for FakeNetwork {
        fn probe<'a>(
            &'a self,
            probed: &'a ProbedAddress,
            _: &'a Key,
        ) -> BoxFuture<'a, Result<(), ProbeError>> {
            self.probes.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                if self.open.load(Ordering::Relaxed) {
                    return Ok(());
                }
                sleep(Duration::from_millis(500)).await;
                Err(ProbeError::Timeout(probed.address))
            })
        }

        fn connect(&self, address: SocketAddr) -> BoxFuture<'_, Result<(), ProbeError>> {
            Box::pin(std::future::ready(Err(ProbeError::Timeout(address))))
        }
    }

    fn verifications(network: &Arc<FakeNetwork>) -> (PathVerifications, Arc<WorkQueue>) {
        let queue = Arc::new(WorkQueue::default());
        let probes = IntCounterVec::new(Opts::new("probes", "probes"), &["result"]).unwrap();
        (PathVerifications::new(network.clone(), queue.clone(), probes), queue)
    }

    fn request() -> VerificationRequest {
        let probed = ProbedAddress {
            address: SocketAddr::from(([10, 96, 0, 1], 80)),
            protocol: Protocol::Http,
            activator_port: 20000,
            admin_addresses: Vec::new(),
        };
        VerificationRequest { addresses: vec![probed], is_managed: true }
    }

    fn is_pending(verification: PathVerification) -> bool {
        matches!(verification, PathVerification { result: None, retry_after: None })
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_block_reconciles_and_backs_off_after_timeouts() {
        let network = Arc::new(FakeNetwork::default());
        let (verifications, queue) = verifications(&network);
        let all: Vec<Key> = (0..200).map(|i| Key::new("shop", format!("web-{i}"))).collect();
        let started = Instant::now();
        for key in &all {
            assert!(is_pending(verifications.check(key, request())));
        }
        assert!(started.elapsed().is_zero());
        sleep(Duration::from_millis(400)).await;
        assert_eq!(network.probes.load(Ordering::Relaxed), CONCURRENCY);
        sleep(Duration::from_millis(1700)).await;
        assert_eq!(network.probes.load(Ordering::Relaxed), all.len());
        let reconciles = queue.stream();
        pin_mut!(reconciles);
        for _ in &all {
            assert!(reconciles.next().now_or_never().is_some(), "a result triggers a reconcile");
        }
        // One workload, reconciled every 100 ms.
        network.probes.store(0, Ordering::Relaxed);
        for _ in 0..3600 {
            let verification = verifications.check(&all[0], request());
            assert!(matches!(verification.result, Some(Err(_))), "{verification:?}");
            advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
        let probes = network.probes.load(Ordering::Relaxed);
        assert!((12..=17).contains(&probes), "{probes} probes in six minutes");
    }

    #[tokio::test(start_paused = true)]
    async fn returns_success_once_and_only_while_it_is_fresh() {
        let network = Arc::new(FakeNetwork { open: true.into(), ..FakeNetwork::default() });
        let ((verifications, _), key) = (verifications(&network), Key::new("shop", "web"));
        assert!(is_pending(verifications.check(&key, request())));
        sleep(Duration::from_millis(1)).await;
        assert!(matches!(verifications.check(&key, request()).result, Some(Ok(()))));
        assert!(is_pending(verifications.check(&key, request())), "a success is for one decision");
        sleep(MAX_AGE + Duration::from_millis(100)).await;
        assert!(is_pending(verifications.check(&key, request())), "the success is too old");
        sleep(Duration::from_millis(1)).await;
        let other = VerificationRequest { is_managed: false, ..request() };
        assert!(is_pending(verifications.check(&key, other.clone())), "the request is another");
        verifications.cancel(&key);
        assert!(is_pending(verifications.check(&key, other)));
        verifications.prune(|_| false);
        assert!(verifications.pending.lock().is_empty());
    }
}
