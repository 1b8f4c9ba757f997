//! What the metrics-adapter tells the zero-scaler: one decision a workload, as a stream.
//!
//! A connection starts with a snapshot of everything known, so a reader needs no other source; after it come changes.

use serde::{Deserialize, Serialize};

use crate::Key;
use crate::scaling::decider::{DeciderSpec, ScaleResult};
use crate::stats::collection::WindowAverages;

/// The decider's newest valid word on one workload.
///
/// There is no decision without data: a workload whose reporters are silent sends nothing, and its last decision grows
/// old by `decided_at`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The workload.
    pub key: Key,
    /// Pods wanted, before minReplicas and maxReplicas, which the writer of `/scale` applies.
    pub desired: u32,
    /// Whether the decider is in panic mode; `desired` then never falls.
    pub panicking: bool,
    /// Whether `desired` is meant to outlast its averages, by a panic, an activation scale, a scale-down delay or the rate of
    /// descent.
    pub held: bool,
    /// Spare capacity over the target burst capacity; negative means the activator belongs in the path.
    pub excess_burst_capacity: i32,
    /// Average over the stable window, in the metric's unit.
    pub stable: f64,
    /// Average over the panic window, in the metric's unit.
    pub panic: f64,
    /// Pods that were ready when deciding.
    pub ready: u32,
    /// Unix milliseconds since when every reporter was heard and none saw a request; `None` as soon as one did, or was not
    /// heard. The only word on which a workload may be put to zero: an average of 0 over a young window is not idleness.
    pub idle_since: Option<i64>,
    /// Unix milliseconds of the decision.
    pub decided_at: i64,
}

// === impl Decision ===

impl Decision {
    /// What others are told of a decider's `result`. Whether it is `panicking` is asked after it decided; the last two are
    /// Unix milliseconds.
    pub fn new(
        key: Key,
        result: ScaleResult,
        panicking: bool,
        ready: u32,
        idle_since: Option<i64>,
        decided_at: i64,
    ) -> Self {
        let ScaleResult { desired, excess_burst_capacity, averages, held, .. } = result;
        let (stable, panic) = (averages.stable, averages.panic);
        Self {
            key,
            desired,
            panicking,
            held,
            excess_burst_capacity,
            stable,
            panic,
            ready,
            idle_since,
            decided_at,
        }
    }

    /// Whether two say the same, apart from their averages and times.
    pub fn is_like(&self, other: &Self) -> bool {
        let essence = |d: &Self| (d.desired, d.panicking, d.excess_burst_capacity, d.ready, d.idle_since);
        essence(self) == essence(other)
    }

    /// Whether it is so far behind the averages of now that the next tick is too late for the callers: a panic would begin, or
    /// asks for more than it has.
    pub fn is_outdated(&self, averages: WindowAverages, spec: &DeciderSpec) -> bool {
        let wanted = (averages.panic / spec.target).ceil();
        let panics = self.panicking || wanted / f64::from(self.ready.max(1)) >= spec.panic_threshold;
        panics && wanted > f64::from(self.desired)
    }

    /// The least that the HPA may be told of the metric the workload scales on, in thousandths: what an average cannot say.
    ///
    /// An HPA that followed the bare average would take away what is held. So while something is, the floor is the value at
    /// which the HPA's `ceil(value / target)` is the decision; else there is none.
    pub fn metric_floor(&self, target_milli: i64) -> i64 {
        if self.held { i64::from(self.desired).saturating_mul(target_milli) } else { 0 }
    }
}

/// One websocket text message of the decision stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "camelCase")]
pub enum DecisionEvent {
    /// The first message of a connection: all there is; what is not in it is unknown.
    Snapshot(Vec<Decision>),
    /// A decision that differs from the last one sent in more than its averages and time; or the same one again after ten
    /// seconds, which says by its `decided_at` that data are still coming in. When `idle_since` ends without data for a new
    /// decision, the old one is sent without it, at its old time.
    Decided(Decision),
    /// The workload is no longer decided on.
    Removed(Key),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::decider::DecisionRule;

    #[test]
    fn what_panics_and_wants_more_than_was_decided_overtakes_the_decision() {
        let spec = DeciderSpec { target: 10.0, ..DeciderSpec::default() };
        let is_outdated = |panic: f64, (desired, ready, panicking)| {
            let result = ScaleResult {
                desired,
                excess_burst_capacity: 0,
                averages: WindowAverages { stable: 0.0, panic },
                rule: DecisionRule::Stable,
                held: panicking,
            };
            let decision = Decision::new(Key::new("shop", "web"), result, panicking, ready, None, 0);
            decision.is_outdated(WindowAverages { stable: 0.0, panic }, &spec)
        };
        assert!(is_outdated(40.0, (2, 2, false)));
        assert!(!is_outdated(30.0, (2, 2, false)), "no panic");
        assert!(!is_outdated(40.0, (4, 2, true)), "decided already");
        assert!(is_outdated(50.0, (4, 2, true)), "more than the panic has asked for");
        assert!(is_outdated(50.0, (4, 4, true)), "whose pods are there by now");
        assert!(is_outdated(20.0, (1, 0, false)), "on their way");
        assert!(!is_outdated(f64::NAN, (1, 1, true)));
    }
}
