//! Request events: arrival, path through an activator or straight to a pod, and end.

use autoscaler::routing::slot_lending::SlotMessage;

use super::{Event, Simulation};
use crate::clock::Time;
use crate::metrics_adapter::MetricsAdapter;
use crate::workload::pod::{Admission, PodId};
use crate::workload::request::{ActivatorId, Request, RequestResult};
use crate::workload::service::Backend;

const SECOND: Time = Time::from_secs(1);
/// Latency of a stat from an activator to the adapter and the zero-scaler.
const PUSH_DELAY: Time = Time::from_millis(2);
/// Seconds between two readings of the pods' CPU and memory, as by metrics-server, and their delay.
const READING_PERIOD: u64 = 15;
const READING_DELAY: u64 = 10;
/// Latency of a message between activators.
const PEER_DELAY: Time = Time::from_millis(1);

// === impl Simulation ===

impl Simulation {
    /// Reports the past second and schedules the requests of the next one.
    pub(super) fn second(&mut self) {
        let now = self.now;
        self.report.pod_seconds += self.replicas.alive() as u64;
        let app = self.app;
        for (_, pod) in self.replicas.pods_mut() {
            pod.end_period(now);
            match now.as_secs() % READING_PERIOD {
                0 => pod.read_resources(app, Time::from_secs(READING_PERIOD), now),
                READING_DELAY => pod.report_resources(),
                _ => {}
            }
        }
        let seconds: Vec<_> = self.replicas.pods().filter_map(|(_, pod)| pod.last_second()).collect();
        if let Some(learning) = self.adapter.as_mut().and_then(MetricsAdapter::learning_mut) {
            learning.observe(&seconds, now);
        }
        let peer_message: Vec<_> =
            self.activators.iter_mut().filter_map(|activator| activator.end_period(now)).collect();
        for stat in peer_message {
            self.after(PUSH_DELAY, Event::Push(Box::new(stat)));
        }
        for request in self.arrivals.second(now) {
            self.events.schedule(request.arrived, Event::Arrived(request));
        }
        self.after(SECOND, Event::Second);
    }

    pub(super) fn request_arrived(&mut self, request: Request) {
        self.report.arrived += 1;
        match self.seen_slices.pick(&mut self.random) {
            Some(Backend::Pod(pod)) if self.send(pod, request) => {}
            Some(Backend::Activator(activator)) => self.hold(activator, request),
            _ => self.end(request, RequestResult::Refused),
        }
    }

    fn hold(&mut self, index: ActivatorId, mut request: Request) {
        let Some(activator) = self.activators.get_mut(index) else { return };
        request.activator = Some(index);
        let poke = activator.request_in(self.now);
        let held = activator.hold(request);
        if let Some(stat) = poke {
            self.after(PUSH_DELAY, Event::Push(Box::new(stat)));
        }
        if !held {
            return self.end(request, RequestResult::Refused);
        }
        self.settle(index);
        // The newest request is the last in the queue, so it is held if any request is.
        if self.activators.get(index).is_some_and(|activator| activator.held() > 0) {
            self.events
                .schedule(request.deadline, Event::DeadlineExpired(Backend::Activator(index), request.id));
        }
    }

    /// Forwards the requests that have a slot now, and sends the messages to the other activators.
    fn settle(&mut self, index: ActivatorId) {
        let mut again = true;
        while std::mem::take(&mut again) {
            let Some(activator) = self.activators.get_mut(index) else { return };
            let (placed, messages) = activator.settle(self.now, &mut self.random);
            for (to, message) in messages {
                self.after(PEER_DELAY, Event::PeerMessage { from: index, to, message });
            }
            for (pod, request) in placed {
                if !self.send(pod, request) {
                    self.leave_pod(pod, request, RequestResult::Refused);
                    again = true;
                }
            }
        }
    }

    pub(super) fn peer_message(&mut self, from: ActivatorId, to: ActivatorId, message: SlotMessage<PodId>) {
        if let Some(activator) = self.activators.get_mut(to) {
            activator.receive(from, message, self.now);
        }
        self.settle(to);
    }

    /// Sends a request to a pod; false if the pod refuses it.
    fn send(&mut self, id: PodId, request: Request) -> bool {
        // Routing to a deleted pod is a defect of the loop. It shows as a refused request.
        let Some(pod) = self.replicas.pod_mut(id) else { return false };
        match pod.accept(request, self.now) {
            Admission::Running => self.begin_work(id, request),
            Admission::Waiting => {
                self.events.schedule(request.deadline, Event::DeadlineExpired(Backend::Pod(id), request.id));
            }
            Admission::Refused => return false,
        }
        true
    }

    pub(super) fn finished(&mut self, id: PodId, request: Request) {
        if !self.leave_app(id, &request) {
            return;
        }
        let time = self.now.saturating_sub(request.started);
        let missed = self.scenario.objective.is_some_and(|objective| time > objective);
        let next = self.replicas.pod_mut(id).and_then(|pod| {
            pod.record_end(time, missed);
            pod.finish(&request, self.now)
        });
        if let Some(next) = next {
            self.begin_work(id, next);
        }
        self.leave_pod(id, request, RequestResult::Served);
        self.settle_for(&request);
    }

    /// Ends a request that still waits at its deadline. A running request is not affected.
    pub(super) fn deadline_expired(&mut self, place: Backend, id: u64) {
        match place {
            Backend::Activator(index) => {
                let request = self.activators.get_mut(index).and_then(|activator| activator.remove(id));
                if let Some(request) = request {
                    self.end(request, RequestResult::TimedOut);
                    self.settle(index);
                }
            }
            Backend::Pod(pod) => {
                let request = self.replicas.pod_mut(pod).and_then(|waited| waited.remove(id, self.now));
                if let Some(request) = request {
                    self.leave_pod(pod, request, RequestResult::TimedOut);
                    self.settle_for(&request);
                }
            }
        }
    }

    /// Ends a request that was sent to a pod, and frees its slot.
    pub(super) fn leave_pod(&mut self, id: PodId, request: Request, outcome: RequestResult) {
        self.end(request, outcome);
        if let Some(activator) = request.activator.and_then(|index| self.activators.get_mut(index)) {
            activator.release(id, &request, self.now);
        }
    }

    pub(super) fn settle_for(&mut self, request: &Request) {
        if let Some(index) = request.activator {
            self.settle(index);
        }
    }

    fn end(&mut self, request: Request, outcome: RequestResult) {
        match outcome {
            RequestResult::Served => {
                self.report.served += 1;
                self.report.latencies.record(self.now.saturating_sub(request.arrived));
            }
            RequestResult::Refused => self.report.refused += 1,
            RequestResult::TimedOut => self.report.timed_out += 1,
            RequestResult::Killed => self.report.killed += 1,
        }
        let late = |objective| self.now.saturating_sub(request.arrived) > objective;
        if self
            .scenario
            .objective
            .is_some_and(|objective| outcome != RequestResult::Served || late(objective))
        {
            self.report.misses += 1;
        }
        if let Some(activator) = request.activator.and_then(|index| self.activators.get_mut(index)) {
            activator.request_out(self.now);
        }
        if let Some(next) = self.arrivals.next_of(&request, outcome, self.now) {
            self.events.schedule(next.arrived, Event::Arrived(next));
        }
    }

    /// Sends the current ready pods to all activators.
    pub(super) fn update_activators(&mut self) {
        let ready = self.replicas.ready();
        for activator in &mut self.activators {
            activator.set_pods(&ready);
        }
        for index in 0..self.activators.len() {
            self.settle(index);
        }
    }
}
