//! MultiScaler: one task owns all deciders, so nothing else can touch their memory.
//!
//! It decides on every workload every two seconds, each in its turn ([`Turns`]), and on one that is poked ([`Pokes`]) at once, or as soon as
//! all that belongs to the moment was heard ([`Gathering`]). Input are the collector's averages and the ready pods; output is
//! [`Decisions`]. Without data nothing is decided, and the old decision grows old.
//!
//! Only the leader's decisions go out. A follower decides all the same, on its own windows and for nobody, so that
//! its deciders know of a panic or a delay when it has to take over; and then it takes nothing away for a stable window,
//! in case the other knew more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::decider::Decider;
use autoscaler::{Decision, Key};
use runtime::kubernetes::lease::Leadership;
use tokio::sync::mpsc;

use crate::collector::Collector;
use crate::decisions::Decisions;
use crate::history::{History, Look};
use crate::metrics::Metrics;
use crate::pokes::{Gathering, Pokes};
use crate::ready_pods::ReadyPods;
use crate::turns::Turns;
use crate::workloads::{Workload, Workloads, WorkloadsReceiver};

/// What decides.
#[derive(Debug)]
pub struct MultiScaler {
    /// Where the averages are.
    pub collector: Arc<Collector>,
    /// How many pods are ready.
    pub pods: ReadyPods,
    /// What to decide on.
    pub workloads: WorkloadsReceiver,
    /// What cannot wait.
    pub pokes: Pokes,
    /// Where decisions go.
    pub decisions: Arc<Decisions>,
    /// Where it is kept what they went by.
    pub history: Arc<History>,
    /// Whether they go out.
    pub leadership: Leadership,
    /// Counters.
    pub metrics: Metrics,
}

/// What is remembered of one workload.
#[derive(Debug)]
struct Unit {
    decider: Decider,
    /// Since when it is idle, by the collector's clock and by the wall. Translated once, for the two clocks drift by
    /// milliseconds, and every reader would take that for news.
    idle: Option<(Duration, i64)>,
}

/// All deciders.
type Units = HashMap<Key, Unit>;

// === impl MultiScaler ===

impl MultiScaler {
    /// Decides until the process ends.
    pub async fn run(mut self, mut poked: mpsc::Receiver<Key>) {
        let mut units = Units::new();
        let mut led = false;
        let mut turns = Turns::of(&self.workloads.borrow());
        let mut gathering = Gathering::default();
        loop {
            let leads = self.leadership.is_leader();
            if leads != led {
                led = leads;
                self.changed_hands(&mut units, leads);
            }
            tokio::select! {
                () = self.leadership.wait_for(!led) => {}
                turn = turns.next() => {
                    for workload in turn {
                        self.decide(&mut units, workload);
                    }
                }
                key = poked.recv() => match key {
                    Some(key) if self.pokes.sleeps(&key) => self.poked(&mut units, &key),
                    Some(key) => gathering.add(key),
                    None => return,
                },
                Some(key) = gathering.next() => self.poked(&mut units, &key),
                changed = self.workloads.changed() => match changed {
                    Ok(()) => {
                        self.forget_removed(&mut units);
                        turns.update(&self.workloads.borrow());
                    }
                    Err(_) => return,
                },
            }
        }
    }

    fn changed_hands(&self, units: &mut Units, leads: bool) {
        if !leads {
            return self.decisions.clear();
        }
        let now = self.collector.clock().now();
        let table = self.workloads.borrow().clone();
        for workload in table.iter() {
            let ready = self.pods.count_ready(&workload.key.namespace, &workload.selector);
            if let (Some(unit), Some(ready)) = (units.get_mut(&workload.key), ready) {
                unit.decider.take_over(ready, now);
            }
        }
        for workload in table.iter() {
            self.decide(units, workload);
        }
    }

    fn poked(&self, units: &mut Units, key: &Key) {
        if !self.leadership.is_leader() {
            return;
        }
        let workload = self.workloads.borrow().get(key).cloned();
        // Several reports may have poked before the first decision.
        if let Some(workload) = workload.filter(|workload| self.pokes.is_urgent(workload)) {
            self.metrics.pokes.inc();
            self.decide(units, &workload);
        }
    }

    fn forget_removed(&mut self, units: &mut Units) {
        let table: Arc<Workloads> = self.workloads.borrow_and_update().clone();
        units.retain(|key, _| table.get(key).is_some());
        self.history.retain(|key| table.get(key).is_some());
        for key in self.decisions.keys() {
            if table.get(&key).is_none() {
                self.decisions.remove(&key);
            }
        }
    }

    fn decide(&self, units: &mut Units, workload: &Arc<Workload>) {
        let key = &workload.key;
        let Some(ready) = self.pods.count_ready(&key.namespace, &workload.selector) else { return };
        let now = self.collector.clock().now();
        let unit = units
            .entry(key.clone())
            .or_insert_with(|| Unit { decider: Decider::new(&workload.spec, ready, now), idle: None });
        let idle_since = self.idle_since(unit, key);
        let averages = self.collector.averages(key, workload.measure);
        // An empty window may be read as silence only if somebody was there to be silent.
        let heard = averages.is_some() || idle_since.is_some();
        let verdict = heard.then(|| unit.decider.decide(&workload.spec, averages, ready, now)).flatten();
        self.metrics.decisions.count(verdict.is_some());
        self.history.record(Look {
            at: runtime::clock::unix_millis(),
            workload: workload.clone(),
            ready,
            averages,
            idle_since,
            verdict,
            panicking: unit.decider.is_panicking(),
            calm: unit.decider.calm_since().map(|since| now.saturating_sub(since)),
        });
        if !self.leadership.is_leader() {
            return;
        }
        match verdict {
            Some(verdict) => {
                let (panicking, at) = (unit.decider.is_panicking(), runtime::clock::unix_millis());
                let decision = Decision::new(key.clone(), verdict, panicking, ready, idle_since, at);
                self.decisions.publish(decision);
            }
            None => self.decisions.correct_idleness(key, idle_since),
        }
    }

    fn idle_since(&self, unit: &mut Unit, key: &Key) -> Option<i64> {
        unit.idle = self.collector.idle_since(key).map(|since| match unit.idle {
            Some((known, millis)) if known == since => (since, millis),
            _ => (since, self.collector.clock().unix_millis(since)),
        });
        unit.idle.map(|(_, millis)| millis)
    }
}
