//! Control events: from measurements to the number of pods, and to the slices.

use std::ops::Range;

use autoscaler::Decision;
use autoscaler::stats::Stat;
use rand::RngExt;

use super::{Event, Simulation, SizeWrite};
use crate::clock::Time;
use crate::hpa;
use crate::metrics_adapter::MetricsAdapter;
use crate::metrics_adapter::stats_scraper::scrape;
use crate::report::TimelineSample;
use crate::workload::pod::PodId;
use crate::workload::replica_set::{SizeChange, Writer};
use crate::workload::service::Slices;
use crate::zero_scaler::ReplicaState;

const SCRAPE_PERIOD: Time = Time::from_secs(1);
/// In the middle half of a second, so that each scrape falls into a second of its own.
const SCRAPE_PHASES: Range<Time> = Time::from_millis(250)..Time::from_millis(750);
const TICK_PERIOD: Time = Time::from_secs(2);
/// From a decision or a change of pods to the zero-scaler's reconcile.
const RECONCILE_DELAY: Time = Time::from_millis(2);
/// From a reconcile to the write in the API server.
const WRITE_DELAY: Time = Time::from_millis(8);
/// From written slices to the rules on every node.
const SLICES_DELAY: Time = Time::from_millis(500);
/// Termination delay: the pod still serves clients on nodes with old slices.
const DRAIN: Time = Time::from_secs(2);

// === impl Simulation ===

impl Simulation {
    /// Schedules periodic events at a random phase: no component controls the phases of the others.
    pub(super) fn begin_control(&mut self) {
        self.after(Time::ZERO, Event::Reconcile);
        for (phases, event) in [
            (SCRAPE_PHASES, Event::Scrape),
            (Time::ZERO..TICK_PERIOD, Event::Tick),
            (Time::ZERO..self.scenario.hpa_sync_period, Event::HpaSync),
        ] {
            let phase = self.random.random_range(phases);
            self.after(phase, event);
        }
        for outage in self.scenario.adapter_outages.clone() {
            self.events.schedule(outage.start, Event::AdapterLost);
            self.events.schedule(outage.end, Event::AdapterBack);
        }
    }

    /// Delivers an activator's stat: the adapter counts it, and the zero-scaler scales from zero.
    pub(super) fn stat_pushed(&mut self, stat: &Stat) {
        if let Some(adapter) = &mut self.adapter {
            adapter.record_push(stat, self.now);
            if !stat.is_idle() && adapter.needs_poke() {
                self.decide();
            }
        }
        if !stat.is_idle()
            && let Some(to) = self.zero_scaler.record_request(self.replicas.spec(), self.now)
        {
            self.write_soon(to, Writer::Wake);
        }
    }

    pub(super) fn scrape(&mut self) {
        let pods = self.replicas.pods().map(|(_, pod)| pod);
        let round = scrape(pods, self.now, self.scenario.settings.window.stable, &mut self.random);
        if let Some(adapter) = &mut self.adapter {
            adapter.record_scrape(&round, self.now);
        }
        self.after(SCRAPE_PERIOD, Event::Scrape);
    }

    pub(super) fn tick(&mut self) {
        self.decide();
        self.sample();
        self.after(TICK_PERIOD, Event::Tick);
    }

    fn decide(&mut self) {
        let (ready, now) = (self.ready(), self.now);
        let decision = self.adapter.as_mut().and_then(|adapter| adapter.decide(ready, now));
        if let Some(decision) = decision {
            self.after(RECONCILE_DELAY, Event::Decided(Box::new(decision)));
        }
    }

    pub(super) fn decided(&mut self, decision: Decision) {
        // The decision may have been made before the adapter was lost.
        if let Some(adapter) = &self.adapter {
            let temporary_limit = adapter.temporary_limit();
            self.zero_scaler.set_decision(Some(decision), temporary_limit.is_some());
            self.limit_pods(temporary_limit);
        }
        self.reconcile();
    }

    /// Sets the requests that activators send to a pod at a time, unless the pods have a limit.
    fn limit_pods(&mut self, temporary_limit: Option<u32>) {
        if self.scenario.container_concurrency == 0 {
            for activator in &mut self.activators {
                activator.set_limit(temporary_limit);
            }
            self.update_activators();
        }
    }

    pub(super) fn reconcile(&mut self) {
        let observed = ReplicaState {
            replicas: self.replicas.spec(),
            ready: self.ready(),
            activators: u32::try_from(self.activators.len()).unwrap_or(u32::MAX),
            activator_answers: self.seen_slices.leads_to_activators(),
        };
        let plan = self.zero_scaler.reconcile(observed, self.now);
        if let Some((to, writer)) = plan.write {
            self.write_soon(to, writer);
        }
        if let Some(recheck) = plan.recheck {
            self.after(recheck, Event::Reconcile);
        }
        self.publish(Slices {
            mode: plan.mode,
            pods: self.replicas.ready(),
            activators: self.activators.len(),
        });
    }

    fn publish(&mut self, slices: Slices) {
        if slices != self.slices {
            self.slices = slices.clone();
            self.after(SLICES_DELAY, Event::SlicesPropagated(slices));
        }
    }

    fn write_soon(&mut self, to: u32, writer: Writer) {
        let write = SizeWrite { to, writer, seen: self.replicas.version() };
        self.after(WRITE_DELAY, Event::SizeWritten(write));
    }

    /// A write is conditional on the ReplicaSet's version, except in panic.
    pub(super) fn size_write_applied(&mut self, write: SizeWrite) {
        if write.writer != Writer::Panic && write.seen != self.replicas.version() {
            return self.after(RECONCILE_DELAY, Event::Reconcile);
        }
        if write.writer != Writer::Wake {
            self.zero_scaler.size_written(write.to);
        }
        self.scale(write.to, write.writer);
    }

    pub(super) fn hpa_sync(&mut self) {
        let usage = match (&self.hpa, &self.adapter) {
            (Some((_, metric)), Some(adapter)) => adapter.metric(*metric, self.replicas.alive(), self.now),
            _ => Err(hpa::NoMetric),
        };
        let signed = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
        let (spec, status) = (signed(self.replicas.spec() as usize), signed(self.replicas.alive()));
        if let Some((hpa, _)) = &mut self.hpa {
            let sync = hpa.sync(hpa::ObservedTarget { spec, status, usages: &[usage] }, self.now);
            self.scale(sync.replicas.unsigned_abs(), Writer::Hpa);
            self.after(self.scenario.hpa_sync_period, Event::HpaSync);
        }
    }

    fn scale(&mut self, to: u32, writer: Writer) {
        let from = self.replicas.spec();
        if to == from {
            return;
        }
        let decision = self.adapter.as_ref().and_then(MetricsAdapter::decision);
        let (desired, panicking) = (decision.map(|d| d.desired), decision.is_some_and(|d| d.panicking));
        let consequences =
            self.replicas.write(SizeChange { at: self.now, from, to, writer, desired, panicking });
        if let Some(start) = self.scenario.pod_start {
            for pod in consequences.created {
                self.after(start, Event::PodReady(pod));
            }
        }
        for pod in consequences.terminated {
            self.after(DRAIN, Event::PodDrained(pod));
        }
        self.pods_changed();
    }

    pub(super) fn pod_ready(&mut self, pod: PodId) {
        if self.replicas.become_ready(pod, self.now) {
            self.pods_changed();
        }
    }

    pub(super) fn pod_drained(&mut self, pod: PodId) {
        self.replicas.remove_if_drained(pod);
        if self.replicas.pod_mut(pod).is_some() {
            self.after(DRAIN, Event::PodDrained(pod));
        }
    }

    pub(super) fn pods_changed(&mut self) {
        self.update_activators();
        self.after(RECONCILE_DELAY, Event::Reconcile);
    }

    pub(super) fn adapter_lost(&mut self) {
        self.adapter = None;
        self.zero_scaler.set_decision(None, false);
        self.reconcile();
    }

    pub(super) fn adapter_back(&mut self) {
        self.adapter = Some(MetricsAdapter::new(&self.scenario));
    }

    fn sample(&mut self) {
        let decision = self.adapter.as_ref().and_then(MetricsAdapter::decision);
        let sample = TimelineSample {
            at: self.now,
            desired: decision.map(|d| d.desired),
            panicking: decision.is_some_and(|d| d.panicking),
            stable: decision.map_or(0.0, |d| d.stable),
            panic: decision.map_or(0.0, |d| d.panic),
            spec: self.replicas.spec(),
            ready: self.ready(),
            running: self.running(),
            held: self.held(),
            mode: self.seen_slices.mode,
        };
        self.report.timeline.push(sample);
        self.record_target();
    }

    fn record_target(&mut self) {
        let learning = self.adapter.as_mut().and_then(MetricsAdapter::learning_mut);
        let Some(learned) = learning.map(|learning| learning.learned()) else { return };
        self.report.target_changes = learned.changes;
        self.report.target_reverts = learned.reverts;
        let newest = self.report.targets.last().map(|(_, target, phase)| (*target, *phase));
        if newest != Some((learned.target, learned.phase)) {
            self.report.targets.push((self.now, learned.target, learned.phase));
        }
    }
}
