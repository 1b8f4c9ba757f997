//! App events: requests inside the pods, kills above a memory limit, and changes of the app.

use super::{Event, Simulation};
use crate::clock::Time;
use crate::metrics_adapter::MetricsAdapter;
use crate::workload::app::AppModel;
use crate::workload::pod::PodId;
use crate::workload::processor_sharing::NextEnd;
use crate::workload::request::{Request, RequestResult};

// === impl Simulation ===

impl Simulation {
    /// Enters an admitted request into its pod's app.
    pub(super) fn begin_work(&mut self, id: PodId, mut request: Request) {
        request.started = self.now;
        let now = self.now;
        let model = self.app;
        let Some(pod) = self.replicas.pod_mut(id) else { return };
        match model {
            AppModel::Unlimited => self.finish_after(request.work, id, request),
            AppModel::Queue { servers } => {
                if let Some(next) = pod.app_mut().servers.enter(request, servers) {
                    self.finish_after(self.work_on(id, &next), id, next);
                }
            }
            AppModel::Cpu { cores, .. } => {
                let next = pod.app_mut().processor.enter(request, cores, now);
                self.schedule_cpu(id, next);
            }
            AppModel::Memory { .. } => {
                pod.app_mut().reside(request);
                let requests = pod.running();
                self.finish_after(request.work, id, request);
                if model.exceeds_memory(requests) {
                    self.kill(id);
                }
            }
            AppModel::Dependency { slots } => {
                let next = self.dependency.enter((id, request), slots);
                self.start_in_dependency(next);
            }
        }
    }

    /// Takes a finished request out of its app, and starts what waits behind it. False if a kill
    /// ended the request before.
    pub(super) fn leave_app(&mut self, id: PodId, request: &Request) -> bool {
        match self.app {
            AppModel::Unlimited | AppModel::Cpu { .. } => {}
            AppModel::Memory { .. } => {
                return self.replicas.pod_mut(id).is_none_or(|pod| pod.app_mut().leave(request));
            }
            AppModel::Queue { servers } => {
                let next = self.replicas.pod_mut(id).and_then(|pod| pod.app_mut().servers.leave(servers));
                if let Some(next) = next {
                    self.finish_after(self.work_on(id, &next), id, next);
                }
            }
            AppModel::Dependency { slots } => {
                let next = self.dependency.leave(slots);
                self.start_in_dependency(next);
            }
        }
        true
    }

    pub(super) fn cpu_ended(&mut self, id: PodId, version: u64) {
        let AppModel::Cpu { cores, wait } = self.app else { return };
        let now = self.now;
        let ended =
            self.replicas.pod_mut(id).and_then(|p| p.app_mut().processor.take_due(version, cores, now));
        if let Some((request, next)) = ended {
            self.schedule_cpu(id, next);
            self.finish_after(wait, id, request);
        }
    }

    /// Applies a change of the app to all pods at once.
    pub(super) fn app_changed(&mut self, index: usize) {
        let Some(change) = self.scenario.app_changes.get(index).copied() else { return };
        self.app = change.app;
        if change.new_template
            && let Some(learning) = self.adapter.as_mut().and_then(MetricsAdapter::learning_mut)
        {
            learning.begin_epoch(index as u64 + 1);
        }
        self.mean_work = change.service_time.mean();
        self.arrivals.set_service_time(change.service_time);
        match self.app {
            AppModel::Queue { servers } => self.fill_servers(servers),
            AppModel::Dependency { slots } => {
                while let Some(next) = self.dependency.serve(slots) {
                    self.start_in_dependency(Some(next));
                }
            }
            AppModel::Unlimited | AppModel::Cpu { .. } | AppModel::Memory { .. } => {}
        }
    }

    /// Starts waiting requests on servers that a change of the app added.
    fn fill_servers(&mut self, servers: usize) {
        let mut started = Vec::new();
        for (id, pod) in self.replicas.pods_mut() {
            started
                .extend(std::iter::from_fn(|| pod.app_mut().servers.serve(servers)).map(|next| (id, next)));
        }
        for (id, next) in started {
            self.finish_after(self.work_on(id, &next), id, next);
        }
    }

    fn start_in_dependency(&mut self, next: Option<(PodId, Request)>) {
        if let Some((id, request)) = next {
            self.finish_after(self.work_of(&request), id, request);
        }
    }

    /// Service time of a request that a server of this pod starts now.
    fn work_on(&self, id: PodId, request: &Request) -> Time {
        let factor =
            self.replicas.pod(id).map_or(1.0, |pod| self.scenario.pod_speeds.factor(id, pod, self.now));
        let work = self.work_of(request);
        // Also in the last nanosecond the same without a factor.
        if factor == 1.0 { work } else { work.mul_f64(factor) }
    }

    /// Service time of a request that a server starts now. A change of the app also applies to the
    /// requests that wait.
    fn work_of(&self, request: &Request) -> Time {
        if request.mean_work == self.mean_work || request.mean_work.is_zero() {
            return request.work;
        }
        request.work.mul_f64(self.mean_work.as_secs_f64() / request.mean_work.as_secs_f64())
    }

    fn schedule_cpu(&mut self, pod: PodId, next: Option<NextEnd>) {
        if let Some(NextEnd { after, version }) = next {
            self.after(after, Event::CpuEnded { pod, version });
        }
    }

    fn finish_after(&mut self, delay: Time, id: PodId, request: Request) {
        self.after(delay, Event::Finished(id, request));
    }

    /// Kills a pod's container. The pod is ready again after its start.
    fn kill(&mut self, id: PodId) {
        let Some(pod) = self.replicas.pod_mut(id) else { return };
        let failed = pod.kill(self.now);
        self.report.oom_kills += 1;
        let now = self.now;
        if let Some(learning) = self.adapter.as_mut().and_then(MetricsAdapter::learning_mut) {
            learning.out_of_memory(now);
        }
        if let Some(start) = self.scenario.pod_start {
            self.after(start, Event::PodReady(id));
        }
        self.pods_changed();
        for request in failed {
            self.leave_pod(id, request, RequestResult::Killed);
            self.settle_for(&request);
        }
    }
}
