//! Shadow: what the user's own target would have cost, by a decider of its own.

use std::time::Duration;

use autoscaler::scaling::decider::{Decider, DeciderSpec};
use autoscaler::stats::collection::WindowAverages;
use serde::{Deserialize, Serialize};

use crate::curve::is_usable;
use crate::tuning;

/// Costs since the start of the present hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Costs {
    since: Option<Duration>,
    learned: f64,
    shadow: f64,
    requests: f64,
    misses: f64,
}

/// The shadow of one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    decider: Option<Decider>,
    costs: Costs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HourResult {
    /// The learned target cost too much more.
    pub(crate) costs_more: bool,
    /// Too many requests missed the objective.
    pub(crate) misses_more: bool,
}

// === impl Costs ===

impl Costs {
    /// Whether the restored sums are usable.
    fn is_valid(&self) -> bool {
        let sums = [self.learned, self.shadow, self.requests, self.misses];
        sums.into_iter().all(is_usable)
    }
}

// === impl Shadow ===

impl Shadow {
    /// The costs to store for a restart.
    pub(crate) fn costs(&self) -> Costs {
        self.costs
    }

    /// Continues the hour of a stored state. An hour that began in the future is from another
    /// clock.
    pub(crate) fn restore(&mut self, costs: Costs, now: Duration) {
        if costs.is_valid() && costs.since.is_some_and(|since| since <= now) {
            self.costs = costs;
        }
    }

    /// Adds the requests of a second.
    pub(crate) fn add_requests(&mut self, requests: f64, misses: f64) {
        self.costs.requests += requests;
        self.costs.misses += misses;
    }

    /// Makes the shadow's decision and adds the costs of both. Returns the result at the end of an
    /// hour.
    pub(crate) fn tick(
        &mut self,
        spec: &DeciderSpec,
        averages: Option<WindowAverages>,
        ready: u32,
        budget: f64,
        now: Duration,
    ) -> Option<HourResult> {
        let decider = self.decider.get_or_insert_with(|| Decider::new(spec, ready, now));
        let result = decider.decide(spec, averages, ready, now)?;
        self.costs.learned += f64::from(ready.max(1));
        self.costs.shadow += f64::from(result.desired.max(1));
        let since = *self.costs.since.get_or_insert(now);
        if now < since || now - since < tuning::costs::SPAN {
            return None;
        }
        let costs = std::mem::take(&mut self.costs);
        Some(HourResult {
            costs_more: costs.learned > tuning::costs::ACCEPTED_PODS * costs.shadow,
            misses_more: costs.misses > (budget + tuning::costs::ACCEPTED_MISSES) * costs.requests,
        })
    }
}
