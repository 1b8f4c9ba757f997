//! The fast path from a waiting request to running pods.
//!
//! ```text
//!  activator ── ActivatorReport frame ──► /push ──► hear ──► asleep? ──► write /scale ──► look at the PodAutoscaler
//! ```
//!
//! Not through the reconcile queue and without the decider's word. Every replica hears of the request: the one that leads
//! writes at once, and the others only if the workload still sleeps a moment later, because two writes at a time make each
//! other slow. So no wake needs a leader, and two that write all the same do no harm. For the same reason nobody looks at
//! the PodAutoscaler while its wake is under way, though the decider's word comes a millisecond after the activator's. An
//! activator pushes once a second while requests wait, so a write that fails is tried again by the next push. The first
//! size is minReplicas or the activation scale; what the decider wants beyond that follows by the ordinary way.
//!
//! Also kept here: when somebody last asked for a workload. It stops the way to zero even if the decider has not heard yet.
//! And what was woken from here: if an activator says that it took long, this replica tells it, and no other does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, ScaleTargetRef};
use autoscaler::scaling::scale_bounds::ScaleBounds;
use autoscaler::scaling::scale_to_zero::is_allowed;
use autoscaler::settings::AutoscalerConfig;
use autoscaler::settings::Settings;
use autoscaler::stats::{ActivatorReport, StatMessage};
use kube::ResourceExt;
use parking_lot::Mutex;
use runtime::kubernetes::lease::Leadership;
use tokio::sync::watch;

use crate::cache::cluster_cache::ClusterCache;
use crate::cache::work_queue::WorkQueue;
use crate::kubernetes::conditions::{self, INITIALIZED};
use crate::kubernetes::events::Events;
use crate::kubernetes::reasons::Reason;
use crate::metrics::Metrics;
use crate::scaling::scale::Scale;
use crate::scaling::scale_targets::{ScaleAccess, ScaleError};

/// Wakes that may run at a time.
const MOST_AT_ONCE: usize = 1024;
/// Workloads whose last request is remembered, and whose last wake.
const MOST_REMEMBERED: usize = 100_000;
/// How long a stopping process waits for writes in flight.
const SETTLE: Duration = Duration::from_secs(1);
/// How long the replicas that follow leave a wake to the one that leads: several times what a write takes with its way back
/// through the watch, and not much against the start of a pod, should the leader be gone without a word.
const LEADERS_TURN: Duration = Duration::from_millis(100);
/// How long the API server may take for one wake. A connection that is lost without a word must not keep it from the next.
const PATIENCE: Duration = Duration::from_secs(5);
/// Reads of a target that keeps changing under our write.
const ATTEMPTS: u32 = 3;

/// What a wake needs to know of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadAtZero {
    /// What to scale.
    pub target: ScaleTargetRef,
    /// To how many.
    pub size: i32,
    /// Its size as last known.
    pub scale: Option<Scale>,
    /// The object that the event speaks of.
    pub autoscaler: PodAutoscaler,
}

/// Where workloads are looked up. A trait, so that the path can be run without watches.
pub trait WorkloadsAtZero: Send + Sync + 'static {
    /// Whether there is such a workload.
    fn exists(&self, key: &Key) -> bool;
    /// The workload, if it may be woken: it is at zero as far as known, goes to zero by our doing, and is not paused.
    fn at_zero(&self, key: &Key) -> Option<WorkloadAtZero>;
}

/// Workloads as the watches know them.
#[derive(Debug)]
pub struct CachedWorkloads<S> {
    /// What the watches know.
    pub objects: Arc<ClusterCache>,
    /// How large targets are.
    pub scales: Arc<S>,
    /// The cluster's settings.
    pub config: watch::Receiver<Arc<AutoscalerConfig>>,
}

/// Wakes workloads.
#[derive(Debug)]
pub struct Wake<S, W> {
    scales: Arc<S>,
    workloads_at_zero: W,
    leadership: Leadership,
    in_flight: Mutex<HashSet<Key>>,
    last_requested: Mutex<HashMap<Key, Instant>>,
    /// Workloads whose last wake was from here, with what events speak of.
    woken_here: Mutex<HashMap<Key, PodAutoscaler>>,
    woken: Arc<WorkQueue>,
    events: Events,
    metrics: Metrics,
}

/// How a wake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Woken,
    AwakeAlready,
}

/// Why a wake failed.
#[derive(Debug, thiserror::Error)]
enum WakeError {
    #[error("no answer for {PATIENCE:?}")]
    Silence,
    #[error(transparent)]
    Scale(#[from] ScaleError),
}

// === impl Watched ===

impl<S: ScaleAccess> WorkloadsAtZero for CachedWorkloads<S> {
    fn exists(&self, key: &Key) -> bool {
        self.objects.autoscaler_meta(key).is_some()
    }

    fn at_zero(&self, key: &Key) -> Option<WorkloadAtZero> {
        let autoscaler = self.objects.autoscaler(key)?;
        let target = autoscaler.spec.scale_target_ref.clone();
        let scale = self.scales.known(&key.namespace, &target);
        let replicas = scale
            .as_ref()
            .map(|s| s.replicas)
            .or_else(|| autoscaler.status.as_ref().and_then(|s| s.replicas));
        let paused = self.objects.serverless_service(key).is_some_and(|sks| sks.spec.paused);
        let config = self.config.borrow().clone();
        let (settings, _) = autoscaler.spec.settings(&config, autoscaler.annotations());
        if replicas != Some(0) || paused || !is_allowed(autoscaler.spec.scale_to_zero, &settings) {
            return None;
        }
        Some(WorkloadAtZero { target, size: first_size(&autoscaler, &settings), scale, autoscaler })
    }
}

/// How many pods a wake starts, before anything is decided.
pub fn first_size(autoscaler: &PodAutoscaler, settings: &Settings) -> i32 {
    let bounds = ScaleBounds::new(settings, conditions::is_true(conditions::of(autoscaler), INITIALIZED));
    i32::try_from(bounds.awake(settings.activation_scale)).unwrap_or(i32::MAX)
}

// === impl Wake ===

impl<S: ScaleAccess, W: WorkloadsAtZero> Wake<S, W> {
    /// Nobody has asked for anything yet.
    pub fn new(
        scales: Arc<S>,
        workloads_at_zero: W,
        leadership: Leadership,
        woken: Arc<WorkQueue>,
        events: Events,
        metrics: Metrics,
    ) -> Self {
        Self {
            scales,
            workloads_at_zero,
            leadership,
            in_flight: Mutex::default(),
            last_requested: Mutex::default(),
            woken_here: Mutex::default(),
            woken,
            events,
            metrics,
        }
    }

    /// Whether a workload's wake is under way. Its end asks for a look.
    pub fn is_waking(&self, key: &Key) -> bool {
        self.in_flight.lock().contains(key)
    }

    /// When the last word came that somebody asks for a workload.
    pub fn last_requested(&self, key: &Key) -> Option<Instant> {
        self.last_requested.lock().get(key).copied()
    }

    /// Takes in a push that was received at `received`.
    pub fn receive(self: &Arc<Self>, push: ActivatorReport, received: Instant) {
        for message in push.messages {
            if !message.stat.is_plausible() {
                self.metrics.push_frames_bad.inc();
            } else if !message.stat.is_idle() {
                self.asked_for(message, received);
            }
        }
        for slow in push.slow_wakes {
            // Once for each wake, however many activators and replicas hear of it.
            if let Some(autoscaler) = self.woken_here.lock().remove(&slow.key) {
                self.events.warning(
                    &autoscaler,
                    Reason::SlowWake,
                    format!("a request was held for long: {}", slow.parts),
                );
            }
        }
    }

    /// Forgets workloads that are gone; to be called now and then.
    pub fn prune(&self) {
        self.last_requested.lock().retain(|key, _| self.workloads_at_zero.exists(key));
        self.woken_here.lock().retain(|key, _| self.workloads_at_zero.exists(key));
    }

    /// Waits for wakes under way, but not for long.
    pub async fn settle(&self) {
        let ended = async {
            while !self.in_flight.lock().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(SETTLE, ended).await.is_err() {
            tracing::warn!("wakes were cut short; another replica or the next push takes them up");
        }
    }

    fn asked_for(self: &Arc<Self>, message: StatMessage, received: Instant) {
        let key = message.key;
        if !self.workloads_at_zero.exists(&key) {
            return;
        }
        remember(&self.last_requested, &key, received);
        let Some(workload) = self.workloads_at_zero.at_zero(&key) else { return };
        if !self.begin(&key) {
            return;
        }
        let wake = self.clone();
        tokio::spawn(async move {
            let woken = wake.run(&key, workload, received).await;
            // Not before the wake is over: until then a look that the watch asks for has no effect.
            if !woken.is_some_and(|workload| wake.is_awaited(&key, &workload)) {
                wake.woken.enqueue(key);
            }
        });
    }

    /// One wake; the sleeper, if its size was written.
    async fn run(&self, key: &Key, workload: WorkloadAtZero, received: Instant) -> Option<WorkloadAtZero> {
        // Dropped at the end, however that comes.
        let _in_flight = InFlight { set: &self.in_flight, key };
        let workload = self.after_the_leader(key, workload).await?;
        self.wake(key, &workload, received).await.then_some(workload)
    }

    /// Whether the watch has still to bring what was written. That asks for a look then; one before would have to ask the API
    /// server for the size, which has the pods to make.
    fn is_awaited(&self, key: &Key, workload: &WorkloadAtZero) -> bool {
        workload.scale.is_some() && self.scales.known(&key.namespace, &workload.target).is_none()
    }

    /// The sleeper, if it is ours to wake: at once where this replica leads or nobody does, else if the leader left it asleep.
    async fn after_the_leader(&self, key: &Key, workload: WorkloadAtZero) -> Option<WorkloadAtZero> {
        if self.leadership.is_leader() || self.leadership.leader().is_none() {
            return Some(workload);
        }
        tokio::time::sleep(LEADERS_TURN).await;
        self.workloads_at_zero.at_zero(key)
    }

    /// Whether a size was written.
    async fn wake(&self, key: &Key, workload: &WorkloadAtZero, received: Instant) -> bool {
        let written = tokio::time::timeout(PATIENCE, self.write(key, workload)).await;
        let outcome = written.unwrap_or(Err(WakeError::Silence));
        let took = tokio::time::Instant::now().into_std().saturating_duration_since(received);
        match &outcome {
            Ok(Outcome::Woken) => {
                self.metrics.wake_seconds.observe(took.as_secs_f64());
                self.metrics.wakes.with_label_values(&["scaled"]).inc();
                self.tell(workload, took);
                remember(&self.woken_here, key, workload.autoscaler.clone());
            }
            Ok(Outcome::AwakeAlready) => self.metrics.wakes.with_label_values(&["active"]).inc(),
            Err(error) => {
                self.metrics.wakes.with_label_values(&["failed"]).inc();
                tracing::warn!(workload = %key, %error, "wake failed; the next push tries again");
            }
        }
        matches!(outcome, Ok(Outcome::Woken))
    }

    async fn write(&self, key: &Key, workload: &WorkloadAtZero) -> Result<Outcome, WakeError> {
        let mut known = workload.scale.clone();
        for _ in 1..ATTEMPTS {
            match self.attempt(key, workload, known.take()).await {
                Err(ScaleError::Conflict(_)) => {}
                end => return Ok(end?),
            }
        }
        Ok(self.attempt(key, workload, None).await?)
    }

    /// One write, on the condition that the target is still as it was when it was seen to be at zero.
    async fn attempt(
        &self,
        key: &Key,
        workload: &WorkloadAtZero,
        known: Option<Scale>,
    ) -> Result<Outcome, ScaleError> {
        let scale = match known {
            Some(scale) => scale,
            None => self.scales.read(&key.namespace, &workload.target).await?,
        };
        if scale.replicas > 0 {
            return Ok(Outcome::AwakeAlready);
        }
        let version = Some(scale.resource_version.as_str()).filter(|version| !version.is_empty());
        self.scales.write(&key.namespace, &workload.target, workload.size, version).await?;
        Ok(Outcome::Woken)
    }

    fn tell(&self, workload: &WorkloadAtZero, took: Duration) {
        let milliseconds = took.as_secs_f64() * 1000.0;
        let note = format!(
            "scaled from 0 to {}: a request is waiting ({milliseconds:.1} ms after the word of it)",
            workload.size
        );
        self.metrics.scale_writes.with_label_values(&["wake"]).inc();
        self.events.normal(&workload.autoscaler, Reason::ScaledFromZero, note);
    }

    fn begin(&self, key: &Key) -> bool {
        let mut in_flight = self.in_flight.lock();
        in_flight.len() < MOST_AT_ONCE && in_flight.insert(key.clone())
    }
}

/// The only wake under way for a workload.
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

fn remember<T>(of: &Mutex<HashMap<Key, T>>, key: &Key, what: T) {
    let mut of = of.lock();
    if of.len() < MOST_REMEMBERED || of.contains_key(key) {
        of.insert(key.clone(), what);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use autoscaler::api::PodAutoscalerSpec;
    use autoscaler::stats::{SlowWake, Stat};
    use futures::{FutureExt, StreamExt};
    use prometheus::Registry;
    use tokio::sync::mpsc;

    use super::*;
    use crate::scaling::scale::Writer;

    /// One target whose writes are seen, and may be refused.
    #[derive(Debug)]
    pub(crate) struct FakeTarget {
        replicas: Mutex<i32>,
        version: Mutex<u32>,
        pub(crate) writes: mpsc::UnboundedSender<(i32, Option<String>)>,
        /// How long a write takes.
        delay: Duration,
        /// Whether its watch is.
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
        fn known(&self, _: &str, _: &ScaleTargetRef) -> Option<Scale> {
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

    /// One workload, known with whatever scale it had when it was last looked at.
    #[derive(Debug)]
    pub(crate) struct OneSleeper(pub(crate) Mutex<Option<WorkloadAtZero>>);

    impl WorkloadsAtZero for OneSleeper {
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
            autoscaler,
        }
    }

    type TestWake = Arc<Wake<FakeTarget, OneSleeper>>;

    pub(crate) fn wake(target: FakeTarget, workload: Option<WorkloadAtZero>) -> TestWake {
        wake_of(Leadership::always_leading(), target, workload)
    }

    fn wake_of(leadership: Leadership, target: FakeTarget, workload: Option<WorkloadAtZero>) -> TestWake {
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let (events, _) = Events::new(metrics.events_dropped.clone());
        let workloads_at_zero = OneSleeper(Mutex::new(workload));
        Arc::new(Wake::new(Arc::new(target), workloads_at_zero, leadership, Arc::default(), events, metrics))
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
    async fn the_first_push_writes_and_those_during_the_write_do_not() {
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
    async fn a_slow_wake_is_an_event_of_the_replica_that_woke() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let mut wake = wake(target, Some(workload("1")));
        let (events, mut told) = Events::new(wake.metrics.events_dropped.clone());
        Arc::get_mut(&mut wake).unwrap().events = events;
        let slow = SlowWake { key: Key::new("shop", "web"), parts: "hold 12.0s".into() };
        let slow = || ActivatorReport { slow_wakes: vec![slow.clone()], ..ActivatorReport::default() };
        wake.receive(slow(), now());
        assert!(told.try_recv().is_err(), "another replica woke it");
        wake.receive(push("web", 1.0), now());
        writes.recv().await.unwrap();
        assert_eq!(told.recv().await.unwrap().reason, Reason::ScaledFromZero);
        tokio::time::sleep(Duration::from_secs(12)).await;
        for _activator in 0..3 {
            wake.receive(slow(), now());
        }
        assert_eq!(told.recv().await.unwrap().reason, Reason::SlowWake);
        assert!(told.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_without_an_answer_is_tried_again() {
        let (target, mut writes) = FakeTarget::new(Duration::from_secs(300));
        let wake = wake(target, Some(workload("1")));
        let key = Key::new("shop", "web");
        wake.receive(push("web", 1.0), now());
        tokio::time::sleep(PATIENCE - Duration::from_millis(1)).await;
        assert!(wake.is_waking(&key));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert!(!wake.is_waking(&key));
        assert_eq!(wake.metrics.wakes.with_label_values(&["failed"]).get(), 1);
        wake.receive(push("web", 1.0), now());
        assert!(wake.is_waking(&key));
        assert!(writes.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_asked_for_when_the_wake_is_over() {
        let (target, _writes) = FakeTarget::new(Duration::from_millis(5));
        let wake = wake(target, Some(workload("1")));
        let key = Key::new("shop", "web");
        let mut looks = Box::pin(wake.woken.clone().stream());
        wake.receive(push("web", 1.0), now());
        assert!(wake.is_waking(&key));
        assert_eq!(looks.next().await, Some(key.clone()));
        assert!(!wake.is_waking(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn where_the_watch_has_still_to_bring_the_size_that_asks_for_the_look() {
        let (mut target, mut writes) = FakeTarget::new(Duration::ZERO);
        target.is_behind = true;
        let wake = wake(target, Some(workload("1")));
        let mut looks = Box::pin(wake.woken.clone().stream());
        wake.receive(push("web", 1.0), now());
        writes.recv().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!wake.is_waking(&Key::new("shop", "web")));
        assert!(looks.next().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_changed_is_read_again() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let wake = wake(target, Some(workload("0")));
        wake.receive(push("web", 1.0), now());
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_somebody_else_woke_is_left_alone() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        *target.replicas.lock() = 7;
        let wake = wake(target, Some(WorkloadAtZero { scale: None, ..workload("0") }));
        wake.receive(push("web", 1.0), now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
        assert_eq!(wake.metrics.wakes.with_label_values(&["active"]).get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_follows_wakes_whom_the_leader_leaves_asleep() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let wake = wake_of(Leadership::following("another"), target, Some(workload("1")));
        let asked = tokio::time::Instant::now();
        for _ in 0..100 {
            wake.receive(push("web", 1.0), now());
        }
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
        assert_eq!(asked.elapsed(), LEADERS_TURN);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_follows_leaves_alone_whom_the_leader_woke() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let wake = wake_of(Leadership::following("another"), target, Some(workload("1")));
        wake.receive(push("web", 1.0), now());
        tokio::time::sleep(LEADERS_TURN / 2).await;
        *wake.workloads_at_zero.0.lock() = None;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.try_recv().is_err());
        // Nothing was in its way, so the next sleep is woken, too.
        *wake.workloads_at_zero.0.lock() = Some(workload("1"));
        wake.receive(push("web", 1.0), now());
        assert_eq!(writes.recv().await, Some((2, Some("1".into()))));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_senseless_and_unknown_words_wake_nobody() {
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
    fn the_first_size_stays_within_the_bounds() {
        let mut autoscaler = workload("1").autoscaler;
        let config = AutoscalerConfig { initial_scale: 3, ..AutoscalerConfig::default() };
        let (mut settings, _) = autoscaler.spec.settings(&config, &Default::default());
        let mut size = |activation_scale| {
            settings.activation_scale = activation_scale;
            first_size(&autoscaler, &settings)
        };
        // A new workload starts at its initial size.
        assert_eq!([size(1), size(4), size(40)], [3, 4, 5]);
        autoscaler.status = Some(
            serde_json::from_value(serde_json::json!({"conditions": [{"type": INITIALIZED, "status": "True",
                "reason": "PodsWereReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
            .unwrap(),
        );
        let mut size = |activation_scale| {
            settings.activation_scale = activation_scale;
            first_size(&autoscaler, &settings)
        };
        assert_eq!([size(1), size(4), size(40)], [2, 4, 5]);
    }
}
