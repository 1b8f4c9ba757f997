//! Shadow: what Rouse would have decided on a recorded load, beside what another autoscaler did.
//!
//! Input: the lines of a trace. Its `ready` lines are the pods that there were; the load comes from
//! its stats. Output: the decisions for pods that follow these decisions, and a report of both.
//!
//! ```text
//!  trace ─┬─ stat, spec, decide ─► Replay ─► decision ─► followed size ─┬─► pods, time over target
//!         │                          ▲────────── ready pods ◄──────────┘
//!         └─ ready ─────────────────────────────────────────────────────► the same of the other
//! ```
//!
//! The size follows as in a cluster: up at once in a panic and from zero, else at the next sync of
//! the HPA; new pods are ready after a start time, and pods that are removed end at once. At zero,
//! requests wait for the first pod.
//!
//! What surprises: the load is the one that was measured. Where concurrency grows with the load of
//! a pod, other sizes would have measured other concurrency. Decisions equal those in a cluster
//! where the load and the decision do not depend on the size.

use std::time::Duration;

use serde::Serialize;

use super::Replay;
use super::decision::ReplayedDecision;
use super::error::ReplayError;
use super::line::{Event, Step, TraceLine};
use crate::contract::metric_name::MetricName;

/// The HPA's sync period, by default.
const HPA_SYNC: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);
/// Longest gap of a trace that is accounted for, in seconds. Limits the work for a line.
const LONGEST_GAP: u64 = 86_400;

/// How sizes follow decisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShadowOptions {
    /// Least pods above zero.
    pub min: u32,
    /// Most pods.
    pub max: u32,
    /// Time that the workload stays up after a stable window without requests; `None` if it never
    /// goes to zero.
    pub grace: Option<Duration>,
    /// From the creation of a pod until it is ready.
    pub pod_start: Duration,
}

/// A replay whose pods follow its decisions.
#[derive(Clone, Debug)]
pub struct Shadow {
    options: ShadowOptions,
    replay: Replay,
    /// Pods of the other autoscaler.
    other_ready: u32,
    size: FollowedSize,
    /// The second that is not accounted for yet, and its load.
    second: u64,
    load: f64,
    report: ShadowReport,
}

/// A decision, and the pods around it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowDecision {
    pub decision: ReplayedDecision,
    /// Pods that follow the decisions, those that start included.
    pub size: u32,
    /// Ready pods of the other autoscaler.
    pub other_ready: u32,
}

/// Both autoscalers over the whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    /// Length of the trace.
    pub seconds: u64,
    pub rouse: ShadowUsage,
    pub other: ShadowUsage,
    /// Decisions without data.
    pub undecided: u64,
    /// Times that the workload was woken from zero.
    pub wakes: u64,
}

/// What an autoscaler used and missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowUsage {
    /// Pods, summed over all seconds: for Rouse with pods that start, for the other autoscaler
    /// ready pods.
    pub pod_seconds: u64,
    /// Most pods.
    pub peak: u32,
    /// Seconds in which a ready pod had more load than the target.
    pub seconds_over_target: u64,
    /// Seconds with load and without a ready pod, in which requests waited.
    pub seconds_without_pod: u64,
    /// Seconds without a pod.
    pub seconds_at_zero: u64,
}

/// The size that follows the decisions, and when its pods become ready.
#[derive(Clone, Debug, Default)]
struct FollowedSize {
    ready: u32,
    /// Pods that start, by the time at which they are ready.
    starting: Vec<(Duration, u32)>,
    /// The next sync of the HPA.
    sync: Duration,
    /// Since when the workload has no load.
    idle: Option<Duration>,
    /// Time without load after which it goes to zero.
    to_zero: Option<Duration>,
}

// === impl Shadow ===

impl Shadow {
    /// A shadow before the first line.
    pub fn new(options: ShadowOptions) -> Self {
        Self {
            options,
            replay: Replay::new(),
            other_ready: 0,
            size: FollowedSize::default(),
            second: 0,
            load: 0.0,
            report: ShadowReport::default(),
        }
    }

    /// Applies the next line. Only a `decide` has a result.
    ///
    /// # Errors
    /// As of [`Replay::take`].
    pub fn take(&mut self, line: TraceLine) -> Result<Option<ShadowDecision>, ReplayError> {
        let (_, now) = line.time()?;
        let event = line.clone().event()?;
        if self.replay.is_started() {
            self.account(now);
        }
        let decision = self.replay.take(line)?;
        match event {
            Event::Start(_, ready) => {
                self.other_ready = ready;
                let first = ready.clamp(self.options.min, self.options.max);
                self.size = FollowedSize { ready: first, sync: now + HPA_SYNC, ..FollowedSize::default() };
                self.second = now.as_secs();
            }
            Event::Then(Step::Ready(ready)) => self.other_ready = ready,
            Event::Then(Step::Stat(stat, _)) => {
                self.load += match self.replay.metric() {
                    Some(MetricName::RequestsPerSecond) => stat.request_count - stat.proxied_request_count,
                    _ => stat.average_concurrent_requests - stat.average_proxied_concurrent_requests,
                };
            }
            Event::Then(Step::Spec(_) | Step::Decide) => {}
        }
        self.replay.set_ready(self.size.ready);
        Ok(decision.map(|decision| self.follow(decision, now)))
    }

    /// Both autoscalers until the newest line.
    pub fn report(&self) -> ShadowReport {
        self.report
    }

    fn follow(&mut self, decision: ReplayedDecision, now: Duration) -> ShadowDecision {
        match decision.result {
            Some(result) => {
                let wanted = result.desired.clamp(self.options.min, self.options.max);
                self.size.follow(wanted, decision.panicking, now, self.options);
            }
            None => self.report.undecided += 1,
        }
        self.replay.set_ready(self.size.ready);
        ShadowDecision { decision, size: self.size.total(), other_ready: self.other_ready }
    }

    /// Adds the seconds before `now` to the report.
    fn account(&mut self, now: Duration) {
        let end = now.as_secs().min(self.second.saturating_add(LONGEST_GAP));
        while self.second < end {
            let at = Duration::from_secs(self.second) + SECOND;
            let load = std::mem::take(&mut self.load);
            let window = self.replay.stable_window();
            self.size.to_zero = window.and_then(|window| Some(window + self.options.grace?));
            self.report.wakes += u64::from(self.size.observe(load, at, self.options));
            self.replay.set_ready(self.size.ready);
            let target = self.replay.target().unwrap_or(f64::INFINITY);
            self.report.seconds += 1;
            self.report.rouse.add(self.size.total(), self.size.ready, load, target);
            self.report.other.add(self.other_ready, self.other_ready, load, target);
            self.second += 1;
        }
    }
}

// === impl FollowedSize ===

impl FollowedSize {
    /// All pods.
    fn total(&self) -> u32 {
        self.ready + self.starting.iter().map(|(_, pods)| pods).sum::<u32>()
    }

    /// Takes the load of the second before `at`: pods become ready, and the size goes to zero or
    /// leaves it. Returns whether it left zero.
    fn observe(&mut self, load: f64, at: Duration, options: ShadowOptions) -> bool {
        let started: u32 = self.starting.iter().filter(|(ready, _)| *ready <= at).map(|(_, pods)| pods).sum();
        self.starting.retain(|(ready, _)| *ready > at);
        self.ready += started;
        if load > 0.0 {
            self.idle = None;
            if self.total() == 0 {
                self.starting.push((at + options.pod_start, options.min));
                return true;
            }
            return false;
        }
        let idle = *self.idle.get_or_insert(at);
        if self.to_zero.is_some_and(|after| at >= idle + after) {
            self.ready = 0;
            self.starting.clear();
        }
        false
    }

    /// Takes a decision. At zero it has no effect: only a request wakes.
    fn follow(&mut self, wanted: u32, panicking: bool, now: Duration, options: ShadowOptions) {
        let total = self.total();
        if total == 0 {
            return;
        }
        let synced = now >= self.sync;
        if synced {
            self.sync = now + HPA_SYNC;
        }
        if wanted > total && (synced || panicking) {
            self.starting.push((now + options.pod_start, wanted - total));
        } else if wanted < total && synced {
            self.remove(total - wanted);
        }
    }

    /// Removes pods, those that are not ready first, as a ReplicaSet does.
    fn remove(&mut self, mut pods: u32) {
        while let Some((_, starting)) = self.starting.last_mut() {
            let removed = pods.min(*starting);
            *starting -= removed;
            pods -= removed;
            if *starting > 0 {
                return;
            }
            self.starting.pop();
        }
        self.ready = self.ready.saturating_sub(pods);
    }
}

// === impl ShadowUsage ===

impl ShadowUsage {
    fn add(&mut self, pods: u32, ready: u32, load: f64, target: f64) {
        self.pod_seconds += u64::from(pods);
        self.peak = self.peak.max(pods);
        self.seconds_over_target += u64::from(ready > 0 && load > f64::from(ready) * target);
        self.seconds_without_pod += u64::from(ready == 0 && load > 0.0);
        self.seconds_at_zero += u64::from(pods == 0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OPTIONS: ShadowOptions =
        ShadowOptions { min: 1, max: 100, grace: None, pod_start: Duration::from_secs(5) };

    fn first(ready: u32) -> Value {
        json!({"t": 0.0, "ready": ready, "spec": {
            "metric": "concurrency", "target": 10.0, "totalTarget": 14.0, "targetBurstCapacity": 211.0,
            "stableWindowSeconds": 60, "panicWindowPercentage": 10.0, "panicThresholdPercentage": 200.0,
            "maxScaleUpRate": 1000.0, "maxScaleDownRate": 2.0, "scaleDownDelaySeconds": 0,
            "activationScale": 1, "reachable": true, "aggregation": "linear",
        }})
    }

    fn stat(t: u64, concurrency: f64) -> Value {
        json!({"t": t, "stat": {
            "concurrency": concurrency, "proxiedConcurrency": 0.0, "requestCount": 1.0, "proxiedRequestCount": 0.0
        }})
    }

    /// A load each second, and a decision each other one.
    fn trace(ready: u32, seconds: u64, load: impl Fn(u64) -> f64) -> Vec<Value> {
        let decide = |t: u64| t.is_multiple_of(2).then(|| json!({"t": t, "decide": true}));
        let lines = (1..seconds).flat_map(|t| [Some(stat(t, load(t))), decide(t)]).flatten();
        [first(ready)].into_iter().chain(lines).collect()
    }

    fn run(lines: &[Value], options: ShadowOptions) -> (Vec<ShadowDecision>, ShadowReport) {
        let mut shadow = Shadow::new(options);
        let parsed = lines.iter().map(|line| serde_json::from_value::<TraceLine>(line.clone()).unwrap());
        let decisions = parsed.filter_map(|line| shadow.take(line).unwrap()).collect();
        (decisions, shadow.report())
    }

    /// Ramps that panic nowhere, so no decision depends on the pods that there are.
    #[test]
    fn decides_as_the_workload_does_where_the_size_does_not_matter() {
        let lines = trace(4, 1200, |t| 45.0 + 30.0 * (t as f64 / 200.0).sin());
        let (shadowed, report) = run(&lines, OPTIONS);
        // The workload with Rouse: the same lines, with the pods that followed its decisions.
        let mut replay = Replay::new();
        let mut live = Vec::new();
        for line in &lines {
            let line: TraceLine = serde_json::from_value(line.clone()).unwrap();
            if let Some(decision) = replay.take(line).unwrap() {
                replay.set_ready(decision.result.map_or(1, |result| result.desired));
                live.push(decision);
            }
        }
        // A replay begins in a panic, whose end depends on nothing but the time.
        let desired = |decision: &ReplayedDecision| decision.result.map(|result| result.desired);
        let shadowed: Vec<_> = shadowed.iter().map(|shadowed| desired(&shadowed.decision)).collect();
        let live: Vec<_> = live.iter().map(desired).collect();
        assert_eq!(shadowed, live);
        assert_eq!((report.seconds, report.rouse.peak, report.undecided), (1199, 8, 0));
    }

    #[test]
    fn compares_pods_and_missed_targets_with_the_other_autoscaler() {
        // Eight pods' load for ten minutes; the other autoscaler has two.
        let (_, report) = run(&trace(2, 601, |_| 78.0), OPTIONS);
        assert_eq!((report.other.pod_seconds, report.other.seconds_over_target), (1200, 599));
        assert_eq!(report.rouse.peak, 8);
        assert!(report.rouse.seconds_over_target < 30, "{report:?}");
        assert!(report.rouse.pod_seconds > 4600, "{report:?}");
    }

    #[test]
    fn goes_to_zero_when_idle_and_wakes_for_the_next_request() {
        let options = ShadowOptions { grace: Some(Duration::from_secs(30)), ..OPTIONS };
        let load = |t: u64| if (100..500).contains(&t) { 0.0 } else { 5.0 };
        let (_, report) = run(&trace(1, 600, load), options);
        assert_eq!(report.wakes, 1);
        // From second 190 to the request of second 500.
        assert!((305..=315).contains(&report.rouse.seconds_at_zero), "{report:?}");
        assert!((4..=6).contains(&report.rouse.seconds_without_pod), "{report:?}");
        assert_eq!((report.other.seconds_at_zero, report.other.pod_seconds), (0, 599));
        let (_, without) = run(&trace(1, 600, load), OPTIONS);
        assert_eq!((without.wakes, without.rouse.seconds_at_zero), (0, 0));
    }

    #[test]
    fn size_stays_within_the_bounds_and_pods_take_time_to_start() {
        let (decisions, report) = run(&trace(1, 120, |_| 500.0), ShadowOptions { max: 20, ..OPTIONS });
        assert_eq!(report.rouse.peak, 20);
        assert!(decisions.iter().any(|shadowed| shadowed.size == 20 && shadowed.decision.ready == 1));
        assert!(decisions.iter().all(|shadowed| shadowed.size <= 20));
    }

    #[test]
    fn rejects_a_trace_without_first_line() {
        let mut shadow = Shadow::new(OPTIONS);
        let line: TraceLine = serde_json::from_value(json!({"t": 1.0, "decide": true})).unwrap();
        assert_eq!(shadow.take(line), Err(ReplayError::NotStarted));
    }
}
