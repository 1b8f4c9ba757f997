//! Breach: what follows at once if pods are overloaded, or a raise breaks the objective.

use std::time::Duration;

use autoscaler::learning_report::Phase;

use super::Learner;
use super::change::{Change, ChangeKind, Pending};
use crate::bracket::Tried;
use crate::curve::Sums;
use crate::observation::PodSecond;
use crate::tuning;

// === impl Learner ===

impl Learner {
    /// Adds a second to the overload if it is one.
    pub(super) fn add_overload(&mut self, all: &Sums, pods: &[PodSecond], at: Duration) {
        let plausible = || pods.iter().filter(|pod| pod.is_plausible());
        let arrivals = plausible().map(|pod| pod.arrivals).sum();
        self.overload.add_arrivals(arrivals);
        let load = all.mean_load() / self.target;
        let is_overloaded = self.requests_wait(all) && load > tuning::pressure::KNEE;
        let unloaded = self.unloaded().filter(|_| is_overloaded && self.spec.is_free());
        let total = plausible().map(|pod| pod.concurrency).sum();
        self.overload.add_load(total, arrivals, unloaded.map(|unloaded| unloaded.mean_time()), at);
        if !is_overloaded {
            return;
        }
        self.overload.add(all, arrivals, load > tuning::evidence::OVERLOAD);
        if let Some(pending) = &mut self.pending {
            pending.overloaded_at = at;
        }
    }

    /// Whether requests wait for each other in this second. Without a number of the user a target
    /// starts so low that a burst exceeds it twice without any effect on the pods, so times must
    /// show it. If nothing shows it, the load decides.
    fn requests_wait(&self, all: &Sums) -> bool {
        let waits = |unloaded: Sums| {
            all.completions <= 0.0 || all.mean_time() > tuning::pressure::KNEE * unloaded.mean_time()
        };
        !self.spec.is_free() || self.unloaded().is_none_or(waits)
    }

    /// Restores the last good target at once if a raise overloads the pods or breaks the objective.
    /// An overload after that lowers the restored target as well, unless it was settled before.
    pub(super) fn restore_after_breach(&mut self, at: Duration) {
        if let Some(pending) = self.pending {
            return self.restore_pending(&pending, at);
        }
        let passed = self.last_change.map_or(Duration::MAX, |change| at.saturating_sub(change.at));
        let overloaded = self.overload.is_breach();
        if self.phase == Phase::Reverted {
            match () {
                () if passed < tuning::evidence::RECOVERY => {
                    self.overload.clear();
                    return;
                }
                () if overloaded => self.phase = Phase::Exploring,
                () => return,
            }
        }
        let Some(change) = self.last_change.filter(|_| passed <= tuning::steps::WATCHED) else { return };
        match change.kind {
            ChangeKind::Raise if overloaded || self.breaks_objective() => {
                self.restore_good(tuning::steps::SEVERE, at)
            }
            ChangeKind::Restore if passed < tuning::evidence::RECOVERY => self.overload.clear(),
            ChangeKind::Restore if change.was_settled => {}
            ChangeKind::Restore if overloaded && matches!(self.phase, Phase::Exploring | Phase::Settled) => {
                self.bracket.record_bad(Tried { target: self.target, severity: tuning::steps::SEVERE, at });
                let target = self.below_edge(self.target, tuning::steps::AFTER_OVERLOAD, 1.0);
                self.restore_after_overload(target, at);
            }
            _ => {}
        }
    }

    /// Restores this target. Without a number of the user it may be much lower, and a backlog
    /// divided by a low target starts that many more pods. So it comes into force after the
    /// overload.
    fn restore_after_overload(&mut self, target: f64, at: Duration) {
        if self.spec.is_free() && self.overload.has_begun() {
            self.pending = Some(Pending { target, at, overloaded_at: at });
        } else {
            self.change_to(target, ChangeKind::Restore, at);
        }
    }

    fn restore_pending(&mut self, pending: &Pending, at: Duration) {
        let has_ended = at.saturating_sub(pending.overloaded_at) >= tuning::evidence::BLOCK;
        if has_ended || at.saturating_sub(pending.at) >= tuning::evidence::RECOVERY {
            self.change_to(pending.target, ChangeKind::Restore, at);
        }
    }

    fn breaks_objective(&self) -> bool {
        let least = self.aftermath.miss_rate_bounds(tuning::evidence::SURE).0;
        let enough = self.aftermath.sums.completions >= tuning::steps::LEAST_REQUESTS;
        enough
            && self.spec.objective.is_some_and(|budget| least > budget.0 * (1.0 + tuning::pressure::SLIGHT))
    }

    /// Restores the target before a raise if the service time changed right after it.
    pub(super) fn undo_recent_raise(&mut self, at: Duration) {
        if let Some(Change { at: raised_at, from, kind: ChangeKind::Raise, .. }) = self.last_change
            && self.pending.is_none()
            && at.saturating_sub(raised_at) < 2 * tuning::steps::BEFORE_LOWERS
        {
            self.bracket.record_bad(Tried { target: self.target, severity: tuning::steps::SEVERE, at });
            self.change_to(from, ChangeKind::Restore, at);
        }
    }

    /// Restores the target before a raise if requests fail, and discards these seconds. However
    /// long ago the raise was: without an objective, nothing else shows that it went too far.
    pub(super) fn stop_at_failures(&mut self, at: Duration) {
        if self.raised_last() && self.phase != Phase::Reverted {
            self.restore_good(tuning::steps::SEVERE, at);
        }
        if let Some(pending) = self.pending {
            self.change_to(pending.target, ChangeKind::Restore, at);
        }
        self.discard_trial(at);
    }

    /// Restores the last good target after a raise, and lets raises rest.
    pub(super) fn restore_good(&mut self, severity: f64, at: Duration) {
        let from = self.last_change.map_or(self.target, |change| change.from);
        let factor = if self.is_before_raised_load(at) { tuning::steps::AFTER_OVERLOAD } else { 1.0 };
        let restored = self.below_edge(from, factor, self.sure_share());
        self.bracket.record_bad(Tried { target: self.target, severity, at });
        self.raise_after = at.saturating_add(self.next_pause());
        if restored < from {
            let bad = from.min(self.edge()).max(restored / tuning::steps::DISTANCE);
            self.bracket.record_bad(Tried { target: bad, severity, at });
        }
        self.restore_after_overload(restored, at);
    }

    /// This target times `most`, or less if the present overload shows that pods had no room for
    /// it. Its own trial was good, so only a burst lowers it by more than the step of a raise.
    fn below_edge(&self, target: f64, most: f64, share: f64) -> f64 {
        let [raise, _] = tuning::steps::RAISES;
        let least = target / (raise * self.overload.growth());
        (self.edge() * share).max(least).min(target * most)
    }

    /// The load up to which the pods have room, as the present overload shows it, without a number
    /// of the user. Infinite if nothing shows it.
    fn edge(&self) -> f64 {
        let unloaded = self.unloaded().filter(|_| self.spec.is_free());
        unloaded.and_then(|unloaded| self.overload.edge(unloaded.mean_time())).unwrap_or(f64::INFINITY)
    }

    /// The seconds at loads at which requests do not wait for each other.
    pub(super) fn unloaded(&self) -> Option<Sums> {
        self.curve.unloaded(self.target)
    }

    /// The share of a pod's room that a target may use: the more the times of requests differ, the
    /// longer a pod stays full by chance.
    fn sure_share(&self) -> f64 {
        let deviation = self.last_change.map_or(0.0, |change| change.deviation);
        (1.0 - tuning::evidence::SURE * deviation).max(tuning::bracket::LEAST_FACTOR)
    }

    /// Whether the last raise has had no effect on the pods yet: requests piled up before it.
    fn is_before_raised_load(&self, at: Duration) -> bool {
        let passed = self.last_change.map_or(Duration::MAX, |change| at.saturating_sub(change.at));
        self.spec.is_free() && passed < tuning::evidence::BLOCK
    }

    /// The pause of raises that begins now. The one after it takes twice as long.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = Duration::from_secs(self.pause);
        self.pause = (self.pause * 2).min(tuning::steps::LONGEST_PAUSE);
        pause
    }
}
