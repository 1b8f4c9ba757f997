//! Resource rules: what follows from the readings of CPU and memory, and from out-of-memory kills.

use std::time::Duration;

use autoscaler::learning_report::Phase;

use super::Learner;
use super::change::ChangeKind;
use super::readings::cpu_line::CpuRoom;
use super::temporary_limit::TemporaryLimit;
use crate::curve::Sums;
use crate::observation::{CpuReading, PodSecond};
use crate::tuning;

// === impl Learner ===

impl Learner {
    /// Reports that a pod was killed for its memory.
    pub fn out_of_memory(&mut self, at: Duration) {
        let killed = if self.in_force { self.target } else { self.spec.start() };
        self.memory.record_kill();
        let cap = self.cap_after_kill(killed);
        // Kills of the same moment have the same cause.
        let recent =
            self.last_change.is_some_and(|change| at.saturating_sub(change.at) < tuning::evidence::BLOCK);
        if self.phase != Phase::Reverted && !(recent && self.memory_cap.is_some()) {
            self.memory_cap = Some(self.memory_cap.map_or(cap, |old| old.min(cap)));
            // A pod that had more than the target, as the first one has, shows nothing about it.
            let carried = self.memory.load().map_or(killed, |load| load.max(killed));
            self.guessed_at = (!self.memory.is_precise()).then_some(carried);
            self.limit = Some(TemporaryLimit::new(self.requests_that_fit(cap), at));
            self.change_to(cap.min(self.target), ChangeKind::Bound, at);
        }
    }

    /// The upper bound after a kill at this target: the load that fits, or a part of the load that
    /// did not.
    fn cap_after_kill(&self, killed: f64) -> f64 {
        match (self.memory.sure_target().filter(|_| self.memory.is_precise()), self.memory.load()) {
            (Some(fitting), _) => fitting.min(killed * tuning::memory::AFTER_RARE_KILL),
            (None, Some(load)) => {
                load.clamp(killed * tuning::memory::LEAST_KILLED, killed) * tuning::memory::AFTER_KILL
            }
            (None, None) => killed * tuning::memory::AFTER_EARLY_KILL,
        }
    }

    /// Requests that a pod may have at a time, unless the user's own limit is enough.
    pub(super) fn temporary_limit(&self) -> Option<u32> {
        let limit = self.limit.filter(|_| self.in_force && self.spec.limit.is_none())?;
        Some(limit.requests)
    }

    /// Requests that a pod may have at a time: those that fit by the readings. Before, as many as
    /// pods had on average when one was killed, of which `cap` is a share.
    fn requests_that_fit(&self, cap: f64) -> u32 {
        let shown = self.memory.most_requests().filter(|_| self.memory.is_precise());
        let shown = shown.map(|requests| requests * tuning::memory::AFTER_RARE_KILL);
        // `as` saturates.
        shown.unwrap_or(cap / tuning::memory::AFTER_KILL).max(1.0) as u32
    }

    /// Adds the readings of a second. Pods that fill up count as well: they share the load.
    pub(super) fn add_memory(&mut self, pods: &[PodSecond]) {
        let plausible = || pods.iter().filter(|pod| pod.is_plausible());
        let (count, load) =
            plausible().fold((0.0, 0.0), |(count, load), pod| (count + 1.0, load + pod.concurrency));
        if count > 0.0 {
            self.memory.add_load(load / count);
        }
        plausible().filter_map(|pod| pod.memory).for_each(|share| self.memory.add_reading(share));
    }

    /// Adds the readings of a second. Those of a pod's first minute are not of its requests alone:
    /// processes start, and a JIT compiles.
    pub(super) fn add_cpu(&mut self, pods: &[PodSecond], at: Duration) {
        let warm = || pods.iter().filter(|pod| pod.is_plausible() && pod.age >= tuning::evidence::COLD_POD);
        let mut all = Sums::default();
        warm().for_each(|pod| all.add(&super::sums(pod)));
        if all.seconds > 0.0 {
            self.throughputs.add(at, all.throughput());
        }
        for CpuReading { share, from, to } in warm().filter_map(|pod| pod.cpu) {
            if let Some(throughput) = self.throughputs.mean(from, to) {
                self.cpu.add(throughput, share);
            }
        }
    }

    /// Whether a pod at this target stays within its limits of memory and CPU, as far as readings
    /// and kills show.
    pub(super) fn fits_resources(&self, target: f64) -> bool {
        let cpu = self.unloaded().and_then(|unloaded| self.cpu.sure_room(unloaded.mean_time()));
        let limits = [self.memory.sure_target(), self.memory_cap, cpu.map(|room| room.load)];
        limits.into_iter().flatten().all(|limit| target <= limit)
    }

    /// The largest target that may fit into the limits. `None` unless the readings are sure that
    /// there is one.
    pub(super) fn possible_target(&self) -> Option<f64> {
        let cpu = self.unloaded().and_then(|unloaded| self.cpu.possible_room(unloaded.mean_time()));
        let cpu = cpu.map(|CpuRoom { load, .. }| load);
        self.memory.possible_target().into_iter().chain(cpu).reduce(f64::min)
    }

    /// The largest target of a raise that the readings allow, without a number of the user.
    /// Infinite where it is so near to the present one that the raise gains nothing.
    pub(super) fn most_for_memory(&self) -> f64 {
        let gains = |fitting: &f64| *fitting > tuning::memory::EXCESS * self.target;
        let fitting = self.memory.sure_target().filter(gains).filter(|_| self.spec.is_free());
        fitting.unwrap_or(f64::INFINITY)
    }

    /// Lowers the target before a kill or an overload if the readings are sure that it exceeds a
    /// limit, and replaces the guess after a kill once there are enough readings.
    pub(super) fn fit_resources(&mut self, at: Duration) {
        if self.phase == Phase::Reverted {
            return;
        }
        if let Some(killed) = self.guessed_at.filter(|_| self.memory.is_precise()) {
            self.memory_cap =
                self.memory.sure_target().map(|fitting| fitting.min(killed)).or(self.memory_cap);
            self.guessed_at = None;
            let requests = self.memory_cap.map(|cap| self.requests_that_fit(cap));
            self.limit = self.limit.zip(requests).map(|(limit, requests)| limit.with_requests(requests));
        }
        if let Some(fitting) = self.possible_target()
            && self.in_force
            && self.target > tuning::memory::EXCESS * fitting
        {
            self.change_to(fitting, ChangeKind::Bound, at);
        }
    }
}
