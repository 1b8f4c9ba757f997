//! Release: what a new pod template discards, and what it keeps.

use std::time::Duration;

use autoscaler::learning_report::Phase;

use super::Learner;
use super::change::Change;
use super::suspicion::Suspicion;
use crate::tuning;

// === impl Learner ===

impl Learner {
    /// Begins a new epoch: all evidence of another template is discarded, and a bad target becomes
    /// a suspicion. The target stays until there is evidence for another.
    pub fn begin_epoch(&mut self, epoch: u64) {
        if epoch != self.epoch {
            let (target, feed, suspicion) = (self.target, self.feed, self.suspect());
            let last_change = feed.last().map(|at| Change::release(target, at));
            let learner = self.without_evidence(self.spec, epoch);
            *self = Self { target, feed, suspicion, last_change, ..learner };
        }
    }

    /// What the evidence of the present pods lets suspect of those that follow them. Without any,
    /// an earlier suspicion goes on.
    fn suspect(&self) -> Option<Suspicion> {
        let at = self.feed.last();
        let bad = self.bracket.bad.map(|bad| bad.target);
        // Where it was settled, there was no room for more.
        let is_settled = self.in_force && self.phase == Phase::Settled;
        let above = is_settled.then_some(self.target * tuning::steps::NEAR_BAD);
        let slow =
            bad.into_iter().chain(above).map(|target| Suspicion::of_slow_pods(target, &self.trial, at));
        let killed = self.memory_cap.map(|cap| Suspicion::of_kills(cap, at));
        let all = killed.into_iter().chain(slow);
        all.min_by(|one, other| one.target.total_cmp(&other.target)).or(self.suspicion)
    }

    /// Whether a raise to `target` stays away from a suspected one, as from a bad one. A settled
    /// target is raised by small steps, and only where responses are as fast as at low load: that
    /// is caution enough.
    pub(super) fn is_unsuspected(&self, target: f64) -> bool {
        self.phase == Phase::Settled || self.suspicion.is_none_or(|bad| self.is_far(target, bad.target))
    }

    /// Ends the suspicion by evidence or with its time. After evidence a settled target is explored
    /// again.
    pub(super) fn review_suspicion(&mut self, at: Duration) {
        let Some(suspicion) = self.suspicion else { return };
        let is_good = self.bracket.good.is_some_and(|good| good.target > suspicion.target);
        let is_refuted = is_good || suspicion.is_refuted(&self.trial, self.memory.is_precise());
        if is_refuted && self.phase == Phase::Settled {
            self.phase = Phase::Exploring;
        }
        self.suspicion = suspicion.at(at).filter(|_| !is_refuted);
    }
}
