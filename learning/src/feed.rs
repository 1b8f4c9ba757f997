//! Feed: whether the seconds arrive in order and complete.

use std::time::Duration;

use autoscaler::learning_report::FreezeReason;

use crate::observation::PodSecond;
use crate::tuning;

/// State of the feed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feed {
    last: Option<Duration>,
    fault: Option<(Duration, FreezeReason)>,
}

/// Result of the check of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedCheck {
    /// The second counts.
    Usable,
    /// The second is late or a duplicate.
    Late,
    /// Earlier seconds of the trial do not continue into this one.
    Broken,
}

// === impl Feed ===

impl Feed {
    /// Checks the second `at`.
    pub(crate) fn check(&mut self, at: Duration, pods: &[PodSecond], needs_app: bool) -> FeedCheck {
        let Some(last) = self.last else {
            self.last = Some(at);
            return self.check_pods(at, pods, needs_app);
        };
        if at <= last && last - at <= tuning::evidence::GAP {
            return FeedCheck::Late;
        }
        self.last = Some(at);
        if at < last || at - last > tuning::evidence::CLOCK_JUMP {
            return self.fail(at, FreezeReason::ClockJump);
        }
        if at - last > tuning::evidence::GAP {
            return self.fail(at, FreezeReason::Gap);
        }
        self.check_pods(at, pods, needs_app)
    }

    /// The newest second.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.last
    }

    /// The last fault, until the end of its probation. A feed that stopped is a gap.
    pub(crate) fn fault(&self, now: Duration) -> Option<FreezeReason> {
        match self.last {
            Some(last) if now.saturating_sub(last) > tuning::evidence::GAP => Some(FreezeReason::Gap),
            Some(last) if last.saturating_sub(now) > tuning::evidence::GAP => Some(FreezeReason::ClockJump),
            _ => self
                .fault
                .filter(|(at, _)| now.saturating_sub(*at) < tuning::evidence::PROBATION)
                .map(|(_, reason)| reason),
        }
    }

    fn check_pods(&mut self, at: Duration, pods: &[PodSecond], needs_app: bool) -> FeedCheck {
        let usable = pods.iter().filter(|pod| pod.is_plausible()).count();
        if usable * 2 < pods.len() {
            return self.fail(at, FreezeReason::Gap);
        }
        let grown = pods.iter().filter(|pod| !pod.is_young());
        let old = grown.clone().filter(|pod| pod.app.is_none()).count();
        if needs_app && old as f64 > tuning::evidence::OLD_SIDECARS * grown.count() as f64 {
            return self.fail(at, FreezeReason::OldSidecars);
        }
        FeedCheck::Usable
    }

    fn fail(&mut self, at: Duration, reason: FreezeReason) -> FeedCheck {
        self.fault = Some((at, reason));
        FeedCheck::Broken
    }
}
