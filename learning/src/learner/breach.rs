//! Breach: what follows at once if pods are overloaded, or a raise breaks the objective.

use std::time::Duration;

use autoscaler::learning_report::Phase;

use super::Learner;
use super::change::{Change, ChangeKind};
use crate::bracket::Tried;
use crate::tuning::TUNING;

// === impl Learner ===

impl Learner {
    /// Restores the last good target at once if a raise overloads the pods or breaks the objective.
    /// An overload after that lowers the restored target as well, unless it was settled before.
    pub(super) fn restore_after_breach(&mut self, at: Duration) {
        let passed = self.last_change.map_or(Duration::MAX, |change| at.saturating_sub(change.at));
        let overloaded = self.overloaded >= TUNING.steps.most_overloaded;
        if self.phase == Phase::Reverted {
            match () {
                () if passed < TUNING.evidence.recovery => {
                    self.overloaded = 0;
                    return;
                }
                () if overloaded => self.phase = Phase::Exploring,
                () => return,
            }
        }
        let Some(change) = self.last_change.filter(|_| passed <= TUNING.steps.watched) else { return };
        match change.kind {
            ChangeKind::Raise if overloaded || self.breaks_objective() => {
                self.restore_good(TUNING.steps.severe, at)
            }
            ChangeKind::Restore if passed < TUNING.evidence.recovery => self.overloaded = 0,
            ChangeKind::Restore if change.was_settled => {}
            ChangeKind::Restore if overloaded && matches!(self.phase, Phase::Exploring | Phase::Settled) => {
                self.bracket.record_bad(Tried { target: self.target, severity: TUNING.steps.severe, at });
                self.change_to(self.target * TUNING.steps.after_overload, ChangeKind::Restore, at);
            }
            _ => {}
        }
    }

    fn breaks_objective(&self) -> bool {
        let least = self.aftermath.miss_rate_bounds(TUNING.evidence.sure).0;
        let enough = self.aftermath.sums.completions >= TUNING.steps.least_requests;
        enough && self.spec.objective.is_some_and(|budget| least > budget.0 * (1.0 + TUNING.pressure.slight))
    }

    /// Restores the target before a raise if the service time changed right after it.
    pub(super) fn undo_recent_raise(&mut self, at: Duration) {
        if let Some(Change { at: raised_at, from, kind: ChangeKind::Raise, .. }) = self.last_change
            && at.saturating_sub(raised_at) < 2 * TUNING.steps.before_lowers
        {
            self.bracket.record_bad(Tried { target: self.target, severity: TUNING.steps.severe, at });
            self.change_to(from, ChangeKind::Restore, at);
        }
    }

    /// Restores the target before a raise if requests fail, and discards these seconds. However
    /// long ago the raise was: without an objective, nothing else shows that it went too far.
    pub(super) fn stop_at_failures(&mut self, at: Duration) {
        if self.raised_last() && self.phase != Phase::Reverted {
            self.restore_good(TUNING.steps.severe, at);
        }
        self.discard_trial(at);
    }

    /// Restores the last good target after a raise, and lets raises rest.
    pub(super) fn restore_good(&mut self, severity: f64, at: Duration) {
        let from = self.last_change.map_or(self.target, |change| change.from);
        self.bracket.record_bad(Tried { target: self.target, severity, at });
        self.raise_after = at.saturating_add(self.next_pause());
        let is_early = self.is_before_raised_load(at);
        if is_early {
            self.bracket.record_bad(Tried { target: from, severity, at });
        }
        let factor = if is_early { TUNING.steps.after_overload } else { 1.0 };
        self.change_to(from * factor, ChangeKind::Restore, at);
    }

    /// Whether the last raise has had no effect on the pods yet: requests piled up before it.
    fn is_before_raised_load(&self, at: Duration) -> bool {
        let passed = self.last_change.map_or(Duration::MAX, |change| at.saturating_sub(change.at));
        self.spec.is_free() && passed < TUNING.evidence.block
    }

    /// The pause of raises that begins now. The one after it takes twice as long.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = Duration::from_secs(self.pause);
        self.pause = (self.pause * 2).min(TUNING.steps.longest_pause);
        pause
    }
}
