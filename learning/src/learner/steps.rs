//! Steps: what follows from a trial at the end of a block.

use std::time::Duration;

use autoscaler::learning_report::Phase;

use super::Learner;
use super::change::{Change, ChangeKind};
use crate::bracket::Tried;
use crate::pressure::{Assessment, Pressure};
use crate::shadow::HourResult;
use crate::trial::Trial;
use crate::tuning;

// === impl Learner ===

impl Learner {
    /// Makes at most one change.
    pub(super) fn step(&mut self, at: Duration) {
        let assessment = Assessment::new(&self.spec, &self.trial, &self.curve);
        if self.trial.sums.completions < tuning::steps::LEAST_REQUESTS {
            return;
        }
        let severe = assessment.pressure == Pressure::High && assessment.severity > tuning::steps::SEVERE;
        if self.trial.seconds
            < if severe { tuning::steps::SEVERE_SECONDS } else { tuning::steps::LEAST_SECONDS }
        {
            return;
        }
        self.review_suspicion(at);
        if !self.in_force && (assessment.pressure == Pressure::Unknown || self.target != self.spec.start()) {
            return self.review_recommendation(&assessment, at);
        }
        if self.phase == Phase::Observing {
            self.phase = Phase::Exploring;
        }
        if self.phase == Phase::Settled {
            return self.step_settled(&assessment, at);
        }
        match assessment.pressure {
            Pressure::High if self.raised_last() => self.restore_good(assessment.severity, at),
            Pressure::High => self.lower(&assessment, at),
            Pressure::Unknown if self.raised_above_knee() => self.restore_good(assessment.severity, at),
            Pressure::Unknown if self.spec.objective.is_some() || self.spec.is_free() => {
                self.raise(&assessment, at, &tuning::steps::RAISES)
            }
            Pressure::Unknown => self.probe(at),
            Pressure::Fine => self.settle(&assessment, at),
            Pressure::Low => {
                self.record_good(&assessment, at);
                self.raise(&assessment, at, &tuning::steps::RAISES);
            }
        }
    }

    /// Keeps a recommended target while the trial, which is one of the user's target, still
    /// supports it. Nothing is recommended to find out what happens.
    fn review_recommendation(&mut self, assessment: &Assessment, at: Duration) {
        let user = self.spec.start();
        let holds = match assessment.pressure {
            Pressure::High => self.target <= user,
            Pressure::Low => self.target >= user,
            Pressure::Fine => self.target == user,
            Pressure::Unknown => true,
        };
        if !holds && self.is_patient(at) {
            self.change_to(user, ChangeKind::Restore, at);
        }
        self.fade_trial();
        self.phase = if self.target == user { Phase::Observing } else { Phase::Settled };
    }

    /// Returns to the largest good target if the learned one was worse for an hour than the
    /// user's; after misses without a good one, to the user's. Costs alone raise it to that at
    /// most: the shadow divides a concurrency that these pods keep low, so a target that overloads
    /// them looks cheap.
    pub(super) fn compare_with_user(&mut self, hour: HourResult, at: Duration) {
        let (user, now) = (self.spec.start(), self.target);
        let good = self.bracket.good.map(|good| good.target);
        let target = if now < user {
            good.filter(|good| hour.costs_more && *good > now).map(|good| good.min(user))
        } else {
            let misses_more = hour.misses_more && now > user && self.spec.objective.is_some();
            misses_more.then(|| good.filter(|good| *good < now).unwrap_or(user))
        };
        let Some(target) = target else { return };
        let may_fit = self.possible_target().is_none_or(|fitting| target <= fitting);
        if self.memory_cap.is_none() && may_fit {
            self.change_to(target, ChangeKind::Restore, at);
            self.phase = Phase::Reverted;
        }
    }

    fn step_settled(&mut self, assessment: &Assessment, at: Duration) {
        self.fade_trial();
        let patient = self.is_patient(at);
        match assessment.pressure {
            Pressure::High if assessment.severity > tuning::steps::SEVERE => self.lower(assessment, at),
            Pressure::High if patient && self.misses_objective() => self.lower(assessment, at),
            Pressure::Low if patient && self.trial.seconds >= tuning::steps::FADE_AFTER / 2.0 => {
                self.record_good(assessment, at);
                self.raise(assessment, at, &[tuning::steps::SETTLED_RAISE]);
            }
            _ => {}
        }
    }

    /// Whether requests surely miss the whole budget. Without an objective every breach is one.
    fn misses_objective(&self) -> bool {
        let least = self.trial.miss_rate_bounds(tuning::evidence::SURE).0;
        self.spec.objective.is_none_or(|budget| least > budget.0)
    }

    /// Whether the last change is long ago.
    fn is_patient(&self, at: Duration) -> bool {
        self.last_change.is_none_or(|change| at.saturating_sub(change.at) >= tuning::steps::BETWEEN_CHANGES)
    }

    fn lower(&mut self, assessment: &Assessment, at: Duration) {
        let tried = self.tried(assessment, at);
        if self.is_early(at, tuning::steps::BEFORE_LOWERS) {
            return;
        }
        if self.lowered_in_vain() {
            return self.freeze(at);
        }
        let target = self.bracket.below(tried, tuning::steps::AIM);
        // At the lower bound the result changes nothing, and the bad target above it stays known.
        if self.has_effect(self.spec.clamp(target)) {
            self.bracket.record_bad(tried);
            self.phase = Phase::Exploring;
            self.change_to(target, ChangeKind::Lower, at);
        } else {
            self.phase = Phase::Settled;
        }
    }

    /// A lower target without any reference: its result shows where the knee is.
    fn probe(&mut self, at: Duration) {
        let lowered = self.last_change.is_some_and(|change| change.kind == ChangeKind::Lower);
        let target = self.target * tuning::steps::PROBE;
        match () {
            () if lowered && self.lowered_in_vain() => self.freeze(at),
            () if self.is_early(at, tuning::steps::BEFORE_RAISES) => {}
            () if !self.pods_follow() => self.fade_trial(),
            () if self.has_effect(self.spec.clamp(target)) => self.change_to(target, ChangeKind::Lower, at),
            () => self.phase = Phase::Settled,
        }
    }

    /// Whether the pods can be as many as the target wants. At `maxReplicas` a pod carries more,
    /// and a lower target changes nothing that would be its result.
    fn pods_follow(&self) -> bool {
        self.trial.sums.mean_load() <= tuning::steps::MOST_CARRIED * self.target
    }

    /// Restores the target before a lower one that did not help, and waits.
    fn freeze(&mut self, at: Duration) {
        if let Some(change) = self.last_change {
            self.change_to(change.from, ChangeKind::Restore, at);
        }
        self.frozen_until = at.saturating_add(tuning::steps::BETWEEN_CHANGES.max(self.next_pause()));
    }

    /// Settles if the trial is long enough. Until then each block may still show room or a breach.
    fn settle(&mut self, assessment: &Assessment, at: Duration) {
        if self.trial.seconds < tuning::steps::SETTLED_SECONDS {
            return;
        }
        if self.raised_last() && assessment.severity > tuning::steps::SLIGHTLY_BAD {
            return self.restore_good(assessment.severity, at);
        }
        self.record_good(assessment, at);
        self.phase = Phase::Settled;
    }

    fn raise(&mut self, assessment: &Assessment, at: Duration, factors: &[f64]) {
        if self.is_early(at, self.before_raises()) || at < self.raise_after {
            return;
        }
        let first = self.is_first().then_some(tuning::steps::FIRST_RAISE);
        let most = self.most_for_memory();
        let raised = first.iter().chain(factors).map(|factor| self.target * factor);
        let targets: Vec<_> = raised
            .chain(self.trial.target_of_one_pod_less().filter(|target| *target > self.target))
            .map(|target| self.spec.clamp(target.min(most)))
            .collect();
        match targets.iter().find(|target| self.may_raise_to(assessment, **target, at)) {
            Some(target) => self.change_to(*target, ChangeKind::Raise, at),
            None if self.waits_for_evidence(&targets) => self.fade_trial(),
            None if self.trial.seconds >= tuning::steps::SETTLED_SECONDS => self.phase = Phase::Settled,
            None => {}
        }
    }

    /// Without a number of the user, the seconds of pods that are not cold any more are all that a
    /// raise needs.
    fn before_raises(&self) -> Duration {
        if self.spec.is_free() { Duration::ZERO } else { tuning::steps::BEFORE_RAISES }
    }

    /// Whether the target is still the one before any evidence, and no user's number.
    fn is_first(&self) -> bool {
        self.spec.is_free() && self.phase != Phase::Settled && self.target == self.spec.start()
    }

    /// Whether the first target stays because requests take longer than a trial. By Little's law
    /// the load over the ends is the time of a request, also of those that have not ended yet.
    pub(super) fn has_long_requests(&self) -> bool {
        let Trial { sums, seconds, .. } = &self.aftermath;
        let is_known = seconds.min(sums.load) >= tuning::evidence::LONG_REQUESTS;
        let is_long = sums.load > tuning::steps::LEAST_SECONDS * sums.completions;
        self.is_first() && self.target < *self.spec.bounds().end() && is_known && is_long
    }

    /// Whether a target that is not the user's stays open for raises: the readings of the memory
    /// are too few, or none of `targets` changes the number of pods, so that nothing can be tried.
    fn waits_for_evidence(&self, targets: &[f64]) -> bool {
        let is_open = self.memory.is_open() || !targets.iter().any(|target| self.has_effect(*target));
        self.spec.is_free() && self.phase != Phase::Settled && is_open
    }

    fn fade_trial(&mut self) {
        if self.trial.seconds > tuning::steps::FADE_AFTER {
            self.trial.fade();
        }
    }

    fn may_raise_to(&self, assessment: &Assessment, target: f64, at: Duration) -> bool {
        self.fits_resources(target)
            && self.bracket.fresh_bad(at).is_none_or(|bad| self.is_far(target, bad))
            && self.is_unsuspected(target)
            && self.has_effect(target)
            && (self.is_first() || target <= tuning::steps::MOST_AHEAD * self.trial.sums.mean_load())
            && self.is_steady()
            && self.is_below_knee(assessment)
            && (self.phase != Phase::Settled || self.has_room(assessment))
    }

    /// Whether a settled target is carried by the pods, and no slower than at a load that is
    /// clearly lower. Near the optimum a raise gains little, and may cost an overload.
    fn has_room(&self, assessment: &Assessment) -> bool {
        let load = self.trial.sums.mean_load();
        let lower =
            assessment.reference_load.is_some_and(|reference| reference <= tuning::steps::LOWER_LOAD * load);
        lower && load >= tuning::steps::CARRIED * self.target
    }

    /// Whether the last block was as fast as the trial. Otherwise the mix of requests may be
    /// another one now, or a dependency, and the trial shows nothing about it.
    fn is_steady(&self) -> bool {
        let change = (self.latest.sums.mean_time() / self.trial.sums.mean_time()).ln().abs();
        change <= tuning::steps::STEADY + tuning::evidence::SURE * self.latest.time_deviation()
    }

    /// Whether more load still brings throughput: by the last change of the load, or else by the
    /// time at low load.
    fn is_below_knee(&self, assessment: &Assessment) -> bool {
        match (self.raise_pays(), assessment.slowdown) {
            (Some(pays), _) => pays,
            // The load of a long trial varies, so its deviation is not one of the mean.
            (None, Some(slowdown)) if self.phase == Phase::Settled => {
                slowdown <= 1.0 + tuning::steps::SLOWER / 2.0
            }
            (None, Some(slowdown)) => slowdown <= 1.0 + tuning::steps::SLOWER + self.trial.time_deviation(),
            (None, None) => true,
        }
    }

    /// Whether the last raise brought load and no throughput. With an objective its misses show
    /// what that costs.
    fn raised_above_knee(&self) -> bool {
        self.spec.objective.is_none() && self.raise_pays() == Some(false)
    }

    /// Whether the last raise brought throughput; `None` if it brought no load either.
    fn raise_pays(&self) -> Option<bool> {
        let (elasticity, deviation) = self.elasticity()?;
        Some(elasticity + deviation >= tuning::steps::ELASTIC)
    }

    /// Relative growth of a pod's throughput over the growth of its load, from before the last
    /// change to now, with its standard deviation. 1 below the knee, 0 above.
    fn elasticity(&self) -> Option<(f64, f64)> {
        let change = self.last_change.filter(|change| change.kind == ChangeKind::Raise)?;
        let load = (self.trial.sums.mean_load() / change.load).ln();
        let time = (self.trial.sums.mean_time() / change.time).ln();
        let deviation = change.deviation.hypot(self.trial.time_deviation());
        (load > tuning::steps::LEAST_GROWTH).then(|| (1.0 - time / load, deviation / load))
    }

    /// Whether a raise gains enough below a bad target, and stays away from it, also in the number
    /// of pods.
    pub(super) fn is_far(&self, target: f64, bad: f64) -> bool {
        bad > tuning::steps::NEAR_BAD * self.target
            && target < bad
            && self.trial.load_at(target) <= self.trial.load_at(bad) * tuning::steps::DISTANCE
    }

    /// Whether another target changes the number of pods.
    fn has_effect(&self, target: f64) -> bool {
        let (now, then) = (self.trial.load_at(self.target), self.trial.load_at(target));
        target != self.target && (then / now - 1.0).abs() > tuning::steps::LEAST_EFFECT
    }

    /// Whether the data of the epoch are younger than `least`.
    fn is_early(&self, at: Duration, least: Duration) -> bool {
        self.began_at.is_none_or(|began| at.saturating_sub(began) < least)
    }

    fn record_good(&mut self, assessment: &Assessment, at: Duration) {
        let tried = self.tried(assessment, at);
        self.bracket.record_good(tried);
    }

    fn tried(&self, assessment: &Assessment, at: Duration) -> Tried {
        Tried { target: self.target, severity: assessment.severity, at }
    }

    pub(super) fn raised_last(&self) -> bool {
        self.last_change.is_some_and(|change| change.kind == ChangeKind::Raise)
    }

    /// Whether the last change lowered the load without any effect on times and misses. While
    /// requests pile up, the times of two trials do not compare.
    fn lowered_in_vain(&self) -> bool {
        let Some(Change { kind: ChangeKind::Lower, from, load, time, misses, .. }) = self.last_change else {
            return false;
        };
        let Trial { sums, .. } = &self.trial;
        if load > tuning::evidence::OVERLOAD * from
            || sums.mean_load() > tuning::evidence::OVERLOAD * self.target
        {
            return false;
        }
        let less_load = 1.0 - sums.mean_load() / load;
        let less_time = 1.0 - sums.mean_time() / time;
        let less_misses = if misses > 0.0 { 1.0 - sums.miss_rate() / misses } else { 0.0 };
        less_load > tuning::steps::LEAST_DECREASE
            && less_time.max(less_misses) < tuning::steps::SHOWS * less_load
    }
}
