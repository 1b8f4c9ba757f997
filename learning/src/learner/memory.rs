//! Memory rules: what follows from the memory line and from out-of-memory kills.

use std::time::Duration;

use autoscaler::learning_report::Phase;

use super::Learner;
use super::change::ChangeKind;
use super::temporary_limit::TemporaryLimit;
use crate::observation::PodSecond;
use crate::tuning::TUNING;

// === impl Learner ===

impl Learner {
    /// Reports that a pod was killed for its memory.
    pub fn out_of_memory(&mut self, at: Duration) {
        let killed = if self.in_force { self.target } else { self.spec.start() };
        self.memory.record_kill();
        let cap = self.cap_after_kill(killed);
        // Kills of the same moment have the same cause.
        let recent =
            self.last_change.is_some_and(|change| at.saturating_sub(change.at) < TUNING.evidence.block);
        if self.phase != Phase::Reverted && !(recent && self.memory_cap.is_some()) {
            self.memory_cap = Some(self.memory_cap.map_or(cap, |old| old.min(cap)));
            self.guessed_at = (!self.memory.is_precise()).then_some(killed);
            self.limit = Some(TemporaryLimit::new(self.requests_that_fit(cap), at));
            self.change_to(cap.min(self.target), ChangeKind::Bound, at);
        }
    }

    /// The upper bound after a kill at this target: the load that fits, or a part of the load that
    /// did not.
    fn cap_after_kill(&self, killed: f64) -> f64 {
        match (self.memory.sure_target().filter(|_| self.memory.is_precise()), self.memory.load()) {
            (Some(fitting), _) => fitting.min(killed * TUNING.memory.after_rare_kill),
            (None, Some(load)) => {
                load.clamp(killed * TUNING.memory.least_killed, killed) * TUNING.memory.after_kill
            }
            (None, None) => killed * TUNING.memory.after_early_kill,
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
        let shown = shown.map(|requests| requests * TUNING.memory.after_rare_kill);
        // `as` saturates.
        shown.unwrap_or(cap / TUNING.memory.after_kill).max(1.0) as u32
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

    /// Whether a pod at this target stays within its memory limit, as far as readings and kills
    /// show.
    pub(super) fn fits_memory(&self, target: f64) -> bool {
        let limits = [self.memory.sure_target(), self.memory_cap];
        limits.into_iter().flatten().all(|limit| target <= limit)
    }

    /// The largest target of a raise that the readings allow, without a number of the user.
    /// Infinite where it is so near to the present one that the raise gains nothing.
    pub(super) fn most_for_memory(&self) -> f64 {
        let gains = |fitting: &f64| *fitting > TUNING.memory.excess * self.target;
        let fitting = self.memory.sure_target().filter(gains).filter(|_| self.spec.is_free());
        fitting.unwrap_or(f64::INFINITY)
    }

    /// Lowers the target before a kill if the readings are sure that its memory exceeds the limit,
    /// and replaces the guess after a kill once there are enough readings.
    pub(super) fn fit_memory(&mut self, at: Duration) {
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
        if let Some(fitting) = self.memory.possible_target()
            && self.in_force
            && self.target > TUNING.memory.excess * fitting
        {
            self.change_to(fitting, ChangeKind::Bound, at);
        }
    }
}
