//! The fast path from a held request to running pods.
//!
//! ```text
//!  activator ─ ActivatorReport ─► /push ─► at zero? ─► write /scale ─► reconcile the PodAutoscaler
//! ```
//!
//! It uses neither the reconcile queue nor a decision of the metrics-adapter. Every replica of the
//! zero-scaler receives the report. The leader writes at once. The others write only if the
//! workload is still at zero after [`LEADER_HEAD_START`], because concurrent writes slow each other
//! down. So no wake depends on a leader, and a second write is harmless.
//!
//! The PodAutoscaler is not reconciled while its wake is in flight, for the same reason. Activators
//! report once a second while they hold requests, so the next report retries a failed write. A wake
//! writes minReplicas or the activation scale; the reconcile after it writes larger sizes.
//!
//! This module also records the time of the last request of each workload, which keeps it above
//! zero before the next decision arrives. And it records which workloads this replica scaled from
//! zero: only that replica publishes event `SlowWake` for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::Key;
use autoscaler::api::PodAutoscaler;
use autoscaler::stats::{ActivatorReport, StatMessage};
use component_base::kubernetes::lease::Leadership;
use component_base::kubernetes::{ObservedReplicas, ScaleFromZeroResult, scale_from_zero};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;

use crate::cache::work_queue::WorkQueue;
use crate::kubernetes::events::Events;
use crate::kubernetes::reasons::Reason;
use crate::metrics::Metrics;
use crate::scaling::scale_targets::{ScaleAccess, ScaleError, TargetScale};
use crate::scaling::workloads_at_zero::{WorkloadAtZero, WorkloadsAtZero};

/// Wakes in flight at a time. The next report retries those above the bound.
const MAX_IN_FLIGHT: usize = 1024;
/// Bound of the workloads whose last request, or last wake, is recorded.
const MAX_TRACKED: usize = 100_000;
/// Longest wait of a stopping process for wakes in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay before a replica that does not lead writes. It is several times the duration of a write
/// and its watch event, and short against the start of a pod, should the leader have crashed.
const LEADER_HEAD_START: Duration = Duration::from_millis(100);
/// Longest duration of one wake: more than the 30 s that an admission webhook may take.
const WAKE_TIMEOUT: Duration = Duration::from_secs(35);
/// Time without a response after which one more attempt begins beside the others: the connection
/// may be lost, or a webhook slow. Only one of them writes, because all depend on the version.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(5);
/// Attempts to write a target that changes between read and write.
const MAX_ATTEMPTS: u32 = 3;

/// Scales workloads from zero when activators report held requests.
#[derive(Debug)]
pub struct WakePath<S, W> {
    scales: Arc<S>,
    workloads: W,
    leadership: Leadership,
    in_flight: Mutex<HashSet<Key>>,
    last_requested: Mutex<HashMap<Key, Instant>>,
    /// PodAutoscalers of the workloads whose last wake was written by this replica.
    scaled_here: Mutex<HashMap<Key, Arc<PodAutoscaler>>>,
    reconciles: Arc<WorkQueue>,
    events: Events,
    metrics: Metrics,
}

/// Why a wake failed.
#[derive(Debug, thiserror::Error)]
enum WakeError {
    #[error("no response of the API server within {WAKE_TIMEOUT:?}")]
    Timeout,
    #[error("the target changed during each of {MAX_ATTEMPTS} attempts")]
    Conflict,
    #[error(transparent)]
    Scale(#[from] ScaleError),
}

// === impl WakePath ===

impl<S: ScaleAccess, W: WorkloadsAtZero> WakePath<S, W> {
    /// No requests are recorded yet. The end of each wake enqueues the workload in `reconciles`.
    pub fn new(
        scales: Arc<S>,
        workloads: W,
        leadership: Leadership,
        reconciles: Arc<WorkQueue>,
        events: Events,
        metrics: Metrics,
    ) -> Self {
        Self {
            scales,
            workloads,
            leadership,
            in_flight: Mutex::default(),
            last_requested: Mutex::default(),
            scaled_here: Mutex::default(),
            reconciles,
            events,
            metrics,
        }
    }

    /// Whether a wake of the workload is in flight. Its end triggers a reconcile.
    pub fn is_waking(&self, key: &Key) -> bool {
        self.in_flight.lock().contains(key)
    }

    /// When an activator last reported a request for the workload.
    pub fn last_requested(&self, key: &Key) -> Option<Instant> {
        self.last_requested.lock().get(key).copied()
    }

    /// Handles a report of an activator.
    pub fn receive(self: &Arc<Self>, report: ActivatorReport, received: Instant) {
        for message in report.messages {
            if !message.stat.is_plausible() {
                self.metrics.push_frames_bad.inc();
            } else if !message.stat.is_idle() {
                self.receive_request(message, received);
            }
        }
        for slow in report.slow_wakes {
            // Removed, so that several activators' reports of one wake give one event.
            if let Some(autoscaler) = self.scaled_here.lock().remove(&slow.key) {
                self.events.warning(
                    autoscaler.as_ref(),
                    Reason::SlowWake,
                    format!("a request was held for long: {}", slow.parts),
                );
            }
        }
    }

    /// Drops workloads that no longer exist. Call it periodically.
    pub fn prune(&self) {
        self.last_requested.lock().retain(|key, _| self.workloads.exists(key));
        self.scaled_here.lock().retain(|key, _| self.workloads.exists(key));
    }

    /// Waits for wakes in flight, at most [`DRAIN_TIMEOUT`].
    pub async fn drain(&self) {
        let is_drained = async {
            while !self.in_flight.lock().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, is_drained).await.is_err() {
            tracing::warn!("wakes in flight aborted by shutdown; another replica retries them");
        }
    }

    fn receive_request(self: &Arc<Self>, message: StatMessage, received: Instant) {
        let key = message.key;
        if !self.workloads.exists(&key) {
            return;
        }
        insert_bounded(&self.last_requested, &key, received);
        let Some(workload) = self.workloads.at_zero(&key) else { return };
        if !self.begin(&key) {
            return;
        }
        let path = self.clone();
        tokio::spawn(async move {
            let scaled = path.run(&key, workload, received).await;
            // Only after the wake: the reconciler skips a workload whose wake is in flight.
            if !scaled.is_some_and(|workload| path.is_watch_behind(&key, &workload)) {
                path.reconciles.enqueue(key);
            }
        });
    }

    /// Runs one wake. Returns the workload if its size was written.
    async fn run(&self, key: &Key, workload: WorkloadAtZero, received: Instant) -> Option<WorkloadAtZero> {
        // Removes the key on every way out, also when the task is aborted.
        let _in_flight = InFlight { set: &self.in_flight, key };
        let workload = self.defer_to_leader(key, workload).await?;
        self.wake(key, &workload, received).await.then_some(workload)
    }

    /// Whether the watch event of the write is still to come. That event triggers a reconcile. An
    /// earlier one would have to read the size from the API server, which is busy with the new
    /// pods.
    fn is_watch_behind(&self, key: &Key, workload: &WorkloadAtZero) -> bool {
        workload.scale.is_some() && self.scales.cached(&key.namespace, &workload.target).is_none()
    }

    /// The workload at once if this replica leads or there is no leader. Otherwise the workload if
    /// it is still at zero after the leader's head start.
    async fn defer_to_leader(&self, key: &Key, workload: WorkloadAtZero) -> Option<WorkloadAtZero> {
        if self.leadership.is_leader() || self.leadership.leader().is_none() {
            return Some(workload);
        }
        tokio::time::sleep(LEADER_HEAD_START).await;
        self.workloads.at_zero(key)
    }

    /// True if a size was written.
    async fn wake(&self, key: &Key, workload: &WorkloadAtZero, received: Instant) -> bool {
        let result = tokio::time::timeout(WAKE_TIMEOUT, self.first_response(key, workload)).await;
        let result = result.unwrap_or(Err(WakeError::Timeout));
        let elapsed = tokio::time::Instant::now().into_std().saturating_duration_since(received);
        match &result {
            Ok(true) => {
                self.metrics.wake_seconds.observe(elapsed.as_secs_f64());
                self.metrics.wakes.with_label_values(&["scaled"]).inc();
                self.publish_scaled(workload, elapsed);
                insert_bounded(&self.scaled_here, key, workload.autoscaler.clone());
            }
            Ok(false) => self.metrics.wakes.with_label_values(&["active"]).inc(),
            Err(error) => {
                self.metrics.wakes.with_label_values(&["failed"]).inc();
                tracing::warn!(workload = %key, %error, "wake failed, retrying at the next report");
            }
        }
        matches!(result, Ok(true))
    }

    /// The result of the first attempt that ends.
    async fn first_response(&self, key: &Key, workload: &WorkloadAtZero) -> Result<bool, WakeError> {
        let mut attempts = FuturesUnordered::new();
        loop {
            attempts.push(self.scale_from_zero(key, workload));
            tokio::select! {
                Some(result) = attempts.next() => return result,
                () = tokio::time::sleep(ATTEMPT_INTERVAL) => {}
            }
        }
    }

    /// True if the size was written, false if the target was above zero already.
    async fn scale_from_zero(&self, key: &Key, workload: &WorkloadAtZero) -> Result<bool, WakeError> {
        let scales = self.scales.as_ref();
        let target = TargetScale { scales, namespace: &key.namespace, target: &workload.target };
        let mut observed = workload.scale.as_ref().map(ObservedReplicas::from);
        for _ in 0..MAX_ATTEMPTS {
            match scale_from_zero(&target, observed.take(), workload.size).await? {
                ScaleFromZeroResult::Scaled => return Ok(true),
                ScaleFromZeroResult::AboveZero => return Ok(false),
                ScaleFromZeroResult::Conflict => {}
            }
        }
        Err(WakeError::Conflict)
    }

    fn publish_scaled(&self, workload: &WorkloadAtZero, elapsed: Duration) {
        let milliseconds = elapsed.as_secs_f64() * 1000.0;
        let note = format!(
            "scaled from 0 to {} for a held request, {milliseconds:.1} ms after the activator's report",
            workload.size
        );
        self.metrics.scale_writes.with_label_values(&["wake"]).inc();
        self.events.normal(workload.autoscaler.as_ref(), Reason::ScaledFromZero, note);
    }

    /// False if a wake of the workload is in flight, or too many are.
    fn begin(&self, key: &Key) -> bool {
        let mut in_flight = self.in_flight.lock();
        in_flight.len() < MAX_IN_FLIGHT && in_flight.insert(key.clone())
    }
}

/// Marks the workload's wake as in flight until it is dropped.
struct InFlight<'a> {
    set: &'a Mutex<HashSet<Key>>,
    key: &'a Key,
}

// === impl InFlight ===

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.set.lock().remove(self.key);
    }
}

fn insert_bounded<T>(map: &Mutex<HashMap<Key, T>>, key: &Key, value: T) {
    let mut map = map.lock();
    if map.len() < MAX_TRACKED || map.contains_key(key) {
        map.insert(key.clone(), value);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use autoscaler::api::{PodAutoscalerSpec, ScaleTargetRef};
    use autoscaler::settings::AutoscalerConfig;
    use autoscaler::stats::{SlowWake, Stat};
    use futures::FutureExt;
    use prometheus::Registry;
    use tokio::sync::mpsc;

    use super::*;
    use crate::cache::cached_target::scale::{Scale, Writer};
    use crate::kubernetes::conditions::INITIALIZED;
    use crate::scaling::workloads_at_zero::first_size;

    /// One target. Its writes are sent to a channel, and fail on conflicts.
    #[derive(Debug)]
    pub(crate) struct FakeTarget {
        replicas: Mutex<i32>,
        version: Mutex<u32>,
        pub(crate) writes: mpsc::UnboundedSender<(i32, Option<String>)>,
        /// Duration of a write.
        delay: Duration,
        /// Whether the watch lags behind, so that no scale is cached.
        is_behind: bool,
    }

    impl FakeTarget {
        pub(crate) fn new(delay: Duration) -> (Self, mpsc::UnboundedReceiver<(i32, Option<String>)>) {
            let (writes, seen) = mpsc::unbounded_channel();
            let target =
                Self { replicas: Mutex::new(0), version: Mutex::new(1), writes, delay, is_behind: false };
            (target, seen)
        }

        fn scale(&self) -> Scale {
            Scale {
                replicas: *self.replicas.lock(),
                selector: "app=web".into(),
                resource_version: self.version.lock().to_string(),
                writer: Writer::Us,
            }
        }
    }

    impl ScaleAccess for FakeTarget {
        fn cached(&self, _: &str, _: &ScaleTargetRef) -> Option<Scale> {
            (!self.is_behind).then(|| self.scale())
        }

        async fn read(&self, _: &str, _: &ScaleTargetRef) -> Result<Scale, ScaleError> {
            Ok(self.scale())
        }

        async fn write(
            &self,
            _: &str,
            _: &ScaleTargetRef,
            replicas: i32,
            version: Option<&str>,
        ) -> Result<(), ScaleError> {
            tokio::time::sleep(self.delay).await;
            if version.is_some_and(|v| v != self.version.lock().to_string()) {
                return Err(ScaleError::Conflict("Deployment web".into()));
            }
            *self.version.lock() += 1;
            *self.replicas.lock() = replicas;
            let _ = self.writes.send((replicas, version.map(str::to_owned)));
            Ok(())
        }
    }

    /// One workload at zero, with its scale as last cached.
    #[derive(Debug)]
    pub(crate) struct OneWorkloadAtZero(pub(crate) Mutex<Option<WorkloadAtZero>>);

    impl WorkloadsAtZero for OneWorkloadAtZero {
        fn exists(&self, key: &Key) -> bool {
            *key == Key::new("shop", "web")
        }

        fn at_zero(&self, _: &Key) -> Option<WorkloadAtZero> {
            self.0.lock().clone()
        }
    }

    pub(crate) fn workload(resource_version: &str) -> WorkloadAtZero {
        let spec: PodAutoscalerSpec = serde_json::from_value(serde_json::json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "service": "web", "target": "70", "minReplicas": 2, "maxReplicas": 5, "scaleToZero": true,
        }))
        .unwrap();
        let scale = Scale {
            replicas: 0,
            selector: String::new(),
            resource_version: resource_version.into(),
            writer: Writer::Us,
        };
        let autoscaler = PodAutoscaler::new("web", spec);
        WorkloadAtZero {
            target: autoscaler.spec.scale_target_ref.clone(),
            size: 2,
            scale: Some(scale),
            autoscaler: Arc::new(autoscaler),
        }
    }

    type TestWakePath = Arc<WakePath<FakeTarget, OneWorkloadAtZero>>;

    pub(crate) fn wake(target: FakeTarget, workload: Option<WorkloadAtZero>) -> TestWakePath {
        wake_of(Leadership::always_leading(), target, workload)
    }

    fn wake_of(leadership: Leadership, target: FakeTarget, workload: Option<WorkloadAtZero>) -> TestWakePath {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let (events, _) = Events::new(metrics.events_dropped.clone());
        let workloads = OneWorkloadAtZero(Mutex::new(workload));
        Arc::new(WakePath::new(Arc::new(target), workloads, leadership, Arc::default(), events, metrics))
    }

    pub(crate) fn push(name: &str, concurrency: f64) -> ActivatorReport {
        let stat = Stat { average_concurrent_requests: concurrency, ..Stat::default() };
        let messages = vec![StatMessage { key: Key::new("shop", name), stat }];
        ActivatorReport { activator: "a".into(), messages, ..ActivatorReport::default() }
    }

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[tokio::test(start_paused = true)]
    async fn writes_once_for_reports_during_one_write() {
        let (target, mut writes) = FakeTarget::new(Duration::from_millis(5));
        let wake = wake(target, Some(workload("1")));
        for _ in 0..100 {
            wake.receive(push("web", 1.0), now());
        }
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
        assert_eq!(wake.metrics.wake_seconds.get_sample_count(), 1);
        assert!(wake.last_requested(&Key::new("shop", "web")).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn publishes_slow_wake_only_on_replica_that_scaled() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let mut wake = wake(target, Some(workload("1")));
        let (events, mut published) = Events::new(wake.metrics.events_dropped.clone());
        Arc::get_mut(&mut wake).unwrap().events = events;
        let slow = SlowWake { key: Key::new("shop", "web"), parts: "hold 12.0s".into() };
        let slow = || ActivatorReport { slow_wakes: vec![slow.clone()], ..ActivatorReport::default() };
        wake.receive(slow(), now());
        assert!(published.try_recv().is_err(), "another replica scaled it");
        wake.receive(push("web", 1.0), now());
        writes.recv().await.unwrap();
        assert_eq!(published.recv().await.unwrap().reason, Reason::ScaledFromZero);
        tokio::time::sleep(Duration::from_secs(12)).await;
        for _activator in 0..3 {
            wake.receive(slow(), now());
        }
        assert_eq!(published.recv().await.unwrap().reason, Reason::SlowWake);
        assert!(published.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn retries_wake_after_timeout() {
        let (target, mut writes) = FakeTarget::new(Duration::from_secs(300));
        let wake = wake(target, Some(workload("1")));
        let key = Key::new("shop", "web");
        wake.receive(push("web", 1.0), now());
        tokio::time::sleep(WAKE_TIMEOUT - Duration::from_millis(1)).await;
        assert!(wake.is_waking(&key));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!wake.is_waking(&key));
        assert_eq!(wake.metrics.wakes.with_label_values(&["failed"]).get(), 1);
        wake.receive(push("web", 1.0), now());
        assert!(wake.is_waking(&key));
        assert!(writes.try_recv().is_err());
    }

    /// An admission webhook on `/scale` may take up to 30 s.
    #[tokio::test(start_paused = true)]
    async fn slow_write_delays_a_wake_and_does_not_prevent_it() {
        let (target, mut writes) = FakeTarget::new(Duration::from_secs(12));
        let wake = wake(target, Some(workload("1")));
        let began = tokio::time::Instant::now();
        for _ in 0..12 {
            wake.receive(push("web", 1.0), now());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
        assert_eq!(began.elapsed().as_secs(), 12);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(writes.try_recv().is_err(), "one write");
    }

    #[tokio::test(start_paused = true)]
    async fn reconciles_when_wake_has_ended() {
        let (target, _writes) = FakeTarget::new(Duration::from_millis(5));
        let wake = wake(target, Some(workload("1")));
        let key = Key::new("shop", "web");
        let mut reconciles = Box::pin(wake.reconciles.clone().stream());
        wake.receive(push("web", 1.0), now());
        assert!(wake.is_waking(&key));
        assert_eq!(reconciles.next().await, Some(key.clone()));
        assert!(!wake.is_waking(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn leaves_reconcile_to_watch_event_if_watch_is_behind() {
        let (mut target, mut writes) = FakeTarget::new(Duration::ZERO);
        target.is_behind = true;
        let wake = wake(target, Some(workload("1")));
        let mut reconciles = Box::pin(wake.reconciles.clone().stream());
        wake.receive(push("web", 1.0), now());
        writes.recv().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!wake.is_waking(&Key::new("shop", "web")));
        assert!(reconciles.next().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn reads_target_again_after_conflict() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let wake = wake(target, Some(workload("0")));
        wake.receive(push("web", 1.0), now());
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
    }

    #[tokio::test(start_paused = true)]
    async fn writes_nothing_if_target_is_above_zero() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        *target.replicas.lock() = 7;
        let wake = wake(target, Some(WorkloadAtZero { scale: None, ..workload("0") }));
        wake.receive(push("web", 1.0), now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
        assert_eq!(wake.metrics.wakes.with_label_values(&["active"]).get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn follower_scales_workload_that_leader_left_at_zero() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let wake = wake_of(Leadership::following("another"), target, Some(workload("1")));
        let reported = tokio::time::Instant::now();
        for _ in 0..100 {
            wake.receive(push("web", 1.0), now());
        }
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
        assert_eq!(reported.elapsed(), LEADER_HEAD_START);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn follower_writes_nothing_if_leader_scaled_workload() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let wake = wake_of(Leadership::following("another"), target, Some(workload("1")));
        wake.receive(push("web", 1.0), now());
        tokio::time::sleep(LEADER_HEAD_START / 2).await;
        *wake.workloads.0.lock() = None;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
        // The skipped wake has ended, so the next report starts another.
        *wake.workloads.0.lock() = Some(workload("1"));
        wake.receive(push("web", 1.0), now());
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
    }

    #[tokio::test(start_paused = true)]
    async fn ignores_idle_implausible_and_unknown_stats() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let wake = wake(target, Some(workload("1")));
        wake.receive(push("web", 0.0), now());
        wake.receive(push("web", -1.0), now());
        wake.receive(push("web", f64::NAN), now());
        wake.receive(push("unknown", 1.0), now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
        assert_eq!(wake.metrics.push_frames_bad.get(), 2);
        assert_eq!(wake.last_requested(&Key::new("shop", "web")), None);
    }

    #[test]
    fn first_size_stays_within_bounds() {
        let mut autoscaler = PodAutoscaler::clone(&workload("1").autoscaler);
        let mut config = AutoscalerConfig::default();
        config.defaults.scale.initial = 3;
        let (mut settings, _) = autoscaler.spec.settings(&config, &Default::default());
        let mut size = |activation_scale| {
            settings.scale.activation = activation_scale;
            first_size(&autoscaler, &settings)
        };
        // A new workload starts at its initial scale.
        assert_eq!([size(1), size(4), size(40)], [3, 4, 5]);
        autoscaler.status = Some(
            serde_json::from_value(serde_json::json!({"conditions": [{"type": INITIALIZED, "status": "True",
                "reason": "PodsWereReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
            .unwrap(),
        );
        let mut size = |activation_scale| {
            settings.scale.activation = activation_scale;
            first_size(&autoscaler, &settings)
        };
        assert_eq!([size(1), size(4), size(40)], [2, 4, 5]);
    }
}
