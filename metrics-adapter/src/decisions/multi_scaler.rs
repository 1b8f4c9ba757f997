//! MultiScaler: one task that owns the deciders and the learners of all workloads.
//!
//! It decides on each workload every two seconds, at the workload's own tick ([`TickSchedule`]). A
//! poke ([`Pokes`]) of a workload at zero is decided at once, other pokes after a short delay
//! ([`DelayedPokes`]). Its input are the collector's averages and the ready pods; its output is the
//! [`DecisionStore`]. Without data it decides nothing, and the last decision ages.
//!
//! Only the leader publishes decisions. A follower decides too, on its own windows, so that its
//! deciders are in the right panic and delay states when it takes over. After a takeover it does
//! not scale down for one stable window, because the previous leader may have seen more load.
//!
//! Each decision is made with the target in force ([`spec_in_force`]). On the leader it comes from
//! the [`Learners`], on a follower from the status that the leader's decisions led to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::history::Sample;
use autoscaler::learning_report::LearningReport;
use autoscaler::scaling::decider::Decider;
use autoscaler::scaling::decision::hpa_lag;
use autoscaler::{Decision, Key};
use component_base::kubernetes::lease::Leadership;
use tokio::sync::mpsc;

use crate::collection::collector::Collector;
use crate::decisions::decision_history::{DecisionHistory, DecisionRecord, TargetChange};
use crate::decisions::decision_store::DecisionStore;
use crate::decisions::pokes::{DelayedPokes, Pokes};
use crate::decisions::tick_schedule::TickSchedule;
use crate::learning::learners::{LearnerSources, Learners};
use crate::learning::observations::Observations;
use crate::learning::resources::resource_readings::ResourceReadings;
use crate::learning::target_in_force::{TargetInForce, spec_in_force};
use crate::metrics::Metrics;
use crate::watches::ready_pods::ReadyPods;
use crate::watches::stored_learning::StoredLearning;
use crate::watches::workloads::{Workload, WorkloadTable, WorkloadsReceiver};

/// A larger difference between the two clocks is a step of the wall clock.
const CLOCK_STEP_MS: u64 = 1_000;

/// Decides on all workloads.
#[derive(Debug)]
pub struct MultiScaler {
    /// Source of the averages.
    pub collector: Arc<Collector>,
    /// Source of the numbers of ready pods.
    pub pods: ReadyPods,
    /// The workloads to decide on.
    pub workloads: WorkloadsReceiver,
    /// Checks whether a poke is still urgent.
    pub pokes: Pokes,
    /// Receives the decisions, while this replica leads.
    pub decisions: Arc<DecisionStore>,
    /// Receives every attempt to decide, with its data.
    pub history: Arc<DecisionHistory>,
    /// Source of the seconds that learners learn from.
    pub observations: Arc<Observations>,
    /// Whether learners have CPU and memory of the pods.
    pub resources: Arc<ResourceReadings>,
    /// Source of the learned targets of earlier leaders.
    pub stored_learning: StoredLearning,
    /// Whether this replica leads.
    pub leadership: Leadership,
    /// Counters.
    pub metrics: Metrics,
}

/// The decider of one workload.
#[derive(Debug)]
struct DeciderEntry {
    decider: Decider,
    /// Since when it is idle, by the collector's clock and by the wall clock. Converted once,
    /// and after a step of the wall clock: the clocks drift by milliseconds, and each difference
    /// would be sent to all subscribers.
    idle: Option<(Duration, i64)>,
}

/// The state between decisions: at most one decider and one learner a workload.
#[derive(Debug)]
struct ScalerState {
    deciders: HashMap<Key, DeciderEntry>,
    learners: Learners,
}

// === impl MultiScaler ===

impl MultiScaler {
    /// Decides until the process ends.
    pub async fn run(mut self, mut poked: mpsc::Receiver<Key>) {
        let mut state = self.initial_state();
        let mut led = false;
        let mut schedule = TickSchedule::new(&self.workloads.borrow());
        let mut delayed = DelayedPokes::default();
        loop {
            let leads = self.leadership.is_leader();
            if leads != led {
                led = leads;
                self.leadership_changed(&mut state, leads);
            }
            tokio::select! {
                () = self.leadership.wait_for(!led) => {}
                workloads = schedule.next() => {
                    for workload in workloads {
                        self.decide(&mut state, workload);
                    }
                }
                key = poked.recv() => match key {
                    Some(key) if self.pokes.is_at_zero(&key) => self.poked(&mut state, &key),
                    Some(key) => delayed.add(key),
                    None => return,
                },
                Some(key) = delayed.next() => self.poked(&mut state, &key),
                changed = self.workloads.changed() => match changed {
                    Ok(()) => {
                        self.drop_removed(&mut state);
                        schedule.update(&self.workloads.borrow());
                    }
                    Err(_) => return,
                },
            }
        }
    }

    fn initial_state(&self) -> ScalerState {
        let learners = Learners::new(
            LearnerSources {
                observations: self.observations.clone(),
                resources: self.resources.clone(),
                stored: self.stored_learning.clone(),
                pods: self.pods.clone(),
            },
            self.metrics.learning.clone(),
        );
        ScalerState { deciders: HashMap::new(), learners }
    }

    fn leadership_changed(&self, state: &mut ScalerState, leads: bool) {
        if !leads {
            state.learners.clear();
            return self.decisions.clear();
        }
        let now = self.collector.clock().now();
        let table = self.workloads.borrow().clone();
        for workload in table.iter() {
            let ready = self.ready(workload);
            if let (Some(entry), Some(ready)) = (state.deciders.get_mut(&workload.key), ready) {
                entry.decider.take_over(ready, now);
            }
        }
        for workload in table.iter() {
            self.decide(state, workload);
        }
    }

    fn poked(&self, state: &mut ScalerState, key: &Key) {
        if !self.leadership.is_leader() {
            return;
        }
        let workload = self.workloads.borrow().get(key).cloned();
        // Several reports may have poked before the first decision.
        if let Some(workload) = workload.filter(|workload| self.pokes.is_urgent(workload)) {
            self.metrics.pokes.inc();
            self.decide(state, &workload);
        }
    }

    fn drop_removed(&mut self, state: &mut ScalerState) {
        let table: Arc<WorkloadTable> = self.workloads.borrow_and_update().clone();
        state.deciders.retain(|key, _| table.get(key).is_some());
        state.learners.retain(|key| table.get(key).is_some());
        self.history.retain(|key| table.get(key).is_some());
        for key in self.decisions.keys() {
            if table.get(&key).is_none() {
                self.decisions.remove(&key);
            }
        }
    }

    fn decide(&self, state: &mut ScalerState, workload: &Arc<Workload>) {
        let key = &workload.key;
        if workload.bypassed {
            // Its requests are counted nowhere: it is not idle, and has no load to decide on.
            return self.decisions.correct_idleness(key, None);
        }
        let Some(ready) = self.ready(workload) else { return };
        let now = self.collector.clock().now();
        // Read once: a decision of the leader without its learned target would change the size.
        let leads = self.leadership.is_leader();
        let averages = || self.collector.averages(key, workload.measure);
        let report = leads.then(|| state.learners.learn(workload, averages(), ready, now)).flatten();
        let stored = || if leads { None } else { state.learners.stored_target(workload) };
        let learned = report.as_ref().map(|report| report.target).or_else(stored);
        let target = match &report {
            Some(report) => TargetInForce::of_report(workload, report),
            None => learned.and_then(|learned| TargetInForce::new(workload, learned)),
        };
        let spec = spec_in_force(workload, target);
        let entry = state
            .deciders
            .entry(key.clone())
            .or_insert_with(|| DeciderEntry { decider: Decider::new(&spec, ready, now), idle: None });
        let idle_since = self.idle_since(entry, key);
        // Read again: the learner takes too long for a lock.
        let (averages, result) = self.collector.with_averages(key, workload.measure, now, |averages| {
            // An empty window counts as no load only if the activators confirm idleness.
            if averages.is_none() && idle_since.is_none() {
                return (None, None);
            }
            self.collector.recordings().decision(workload, &spec, ready, now);
            (averages, entry.decider.decide(&spec, averages, ready, now))
        });
        // Without any activator, sidecars report all requests.
        let is_partial = self.collector.is_any_activator_silent(key);
        let result = if is_partial { result.map(|result| result.without_all_reports(ready)) } else { result };
        let (panicking, at) = (entry.decider.is_panicking(), self.collector.clock().unix_millis(now));
        let record = DecisionRecord {
            at,
            workload: workload.clone(),
            spec: spec.into_owned(),
            ready,
            averages,
            idle_since,
            result,
            panicking,
            calm: entry.decider.calm_since().map(|since| now.saturating_sub(since)),
        };
        self.record(record, learned);
        match result {
            _ if !leads => {}
            Some(result) => {
                let learning = report.map(Box::new);
                let decision = Decision::new(key.clone(), result, panicking, ready, idle_since, at);
                let hpa_lag = self.history.query_interval(key).and_then(hpa_lag);
                self.publish(Decision { learning, hpa_lag, ..decision });
            }
            None => self.decisions.correct_idleness(key, idle_since),
        }
    }

    fn record(&self, record: DecisionRecord, learned: Option<f64>) {
        self.metrics.decisions.count(record.result.is_some());
        let idle_load = record.idle_since.map(|_| 0.0);
        let sample = Sample {
            load: record.averages.map(|averages| averages.stable).or(idle_load),
            ready: record.ready,
            decided: record.result.map(|result| result.desired),
            target: record.spec.target,
            learned,
            panicking: record.panicking,
        };
        self.history.record_sample(&record.workload.key, record.at, sample);
        self.history.record(record);
    }

    /// The number of ready pods; `None` until they are listed.
    fn ready(&self, workload: &Workload) -> Option<u32> {
        self.pods.count_ready(&workload.key.namespace, &workload.selector, workload.sidecar)
    }

    /// Publishes a decision, and records a change of its learned target.
    fn publish(&self, decision: Decision) {
        let key = &decision.key;
        let last = self.decisions.read(key, |last| last.learning.as_ref().map(|learning| learning.target));
        if let (Some(from), Some(learning)) = (last.flatten(), &decision.learning)
            && from != learning.target
        {
            let LearningReport { target: to, phase, mode, .. } = **learning;
            tracing::info!(workload = %key, from, to, %phase, ?mode, "learned target changed");
            let change = TargetChange { at: decision.decided_at, from, to, phase };
            self.history.record_target_change(key, change);
        }
        self.decisions.publish(decision);
    }

    fn idle_since(&self, entry: &mut DeciderEntry, key: &Key) -> Option<i64> {
        entry.idle = self.collector.idle_since(key).map(|since| {
            let millis = self.collector.clock().unix_millis(since);
            let is_same =
                |(last, sent): &(Duration, i64)| *last == since && sent.abs_diff(millis) < CLOCK_STEP_MS;
            entry.idle.filter(is_same).unwrap_or((since, millis))
        });
        entry.idle.map(|(_, millis)| millis)
    }
}
