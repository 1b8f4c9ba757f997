//! The decision stream: what the metrics-adapter sends to the zero-scaler, one decision a workload.
//!
//! A connection starts with a snapshot of all decisions, so a client needs no other source. Changes
//! follow.

use serde::{Deserialize, Serialize};

use crate::Key;
use crate::contract::version_skew::KnownItems;
use crate::learning_report::LearningReport;
use crate::scaling::decider::{DeciderSpec, ScaleResult};
use crate::stats::collection::WindowAverages;
use crate::stats::reporters::MissingReports;

/// The newest valid result of the decider for one workload.
///
/// There is no decision without data. While all sources of a workload are silent, no decision is
/// sent, and the last one ages by its `decided_at`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub key: Key,
    /// Pods wanted, before minReplicas and maxReplicas; the zero-scaler or the HPA applies those.
    pub desired: u32,
    /// Whether the decider is in panic mode, in which `desired` never falls.
    pub panicking: bool,
    /// Whether `desired` is meant to outlast its averages: by a panic, an activation scale, a
    /// scale-down delay or the maximum rate of scaling down.
    pub held: bool,
    /// Spare capacity over the target burst capacity; negative means the activator belongs in the
    /// path.
    pub excess_burst_capacity: i32,
    /// Average over the stable window, in the metric's unit.
    pub stable: f64,
    /// Average over the panic window, in the metric's unit.
    pub panic: f64,
    /// Pods that were ready at the time of the decision.
    pub ready: u32,
    /// Unix milliseconds since when every source reports and none has a request. `None` once a
    /// source has a request or is silent. The only condition under which a workload may go to zero:
    /// an average of 0 over a young window is not idleness.
    pub idle_since: Option<i64>,
    /// Unix milliseconds of the decision.
    pub decided_at: i64,
    /// The learned target with its evidence; `None` without learning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Box<LearningReport>>,
    /// The [`hpa_lag`] of its HPA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_lag: Option<u32>,
}

/// Seconds between two syncs of an HPA from which on it is late: twice the controller's period.
const LATE: u32 = 30;

/// How late an HPA is that follows its metric each `interval` milliseconds: the largest of 30, 60,
/// 120 s and so on that the interval reaches, `None` below. In steps, so that a status does not
/// change with each sync.
pub fn hpa_lag(interval: i64) -> Option<u32> {
    let steps = u32::try_from(interval / 1000).ok()?.checked_div(LATE)?.checked_ilog2()?;
    Some(LATE << steps)
}

// === impl Decision ===

impl Decision {
    /// The decision for the decider's `result`. `panicking` is the decider's mode after that
    /// result; `idle_since` and `decided_at` are Unix milliseconds.
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
            learning: None,
            hpa_lag: None,
        }
    }

    /// The decision without the checkpoint of learning, which may be larger than all else in it.
    #[must_use]
    pub fn without_checkpoint(&self) -> Self {
        let learning = self.learning.as_deref().map(|report| Box::new(report.without_checkpoint()));
        Self { key: self.key.clone(), learning, ..*self }
    }

    /// Whether two decisions are equal apart from their averages, times and evidence.
    pub fn is_like(&self, other: &Self) -> bool {
        let essence =
            |d: &Self| (d.desired, d.panicking, d.excess_burst_capacity, d.ready, d.idle_since, d.hpa_lag);
        let learned_alike = match (&self.learning, &other.learning) {
            (Some(report), Some(other)) => report.is_like(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        essence(self) == essence(other) && learned_alike
    }

    /// Whether the current averages need so many more pods that the next tick would be too late:
    /// they would start a panic, or exceed the size of the present one.
    pub fn is_outdated(&self, averages: WindowAverages, spec: &DeciderSpec) -> bool {
        let wanted = (averages.panic / spec.target).ceil();
        let panics = self.panicking || wanted / f64::from(self.ready.max(1)) >= spec.panic_threshold;
        panics && wanted > f64::from(self.desired)
    }

    /// Lower bound, in thousandths, for the value that is reported to the HPA of the metric that
    /// the workload scales on.
    ///
    /// An HPA that followed the bare average would remove pods that are held. While `held` is set,
    /// the floor is the value at which the HPA's `ceil(value / target)` is `desired`; otherwise it
    /// is 0.
    pub fn metric_floor(&self, target_milli: i64) -> i64 {
        if self.held { i64::from(self.desired).saturating_mul(target_milli) } else { 0 }
    }
}

/// One websocket text message of the decision stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "camelCase")]
pub enum DecisionEvent {
    /// First message of a connection: all decisions. A workload that is not in it has none.
    Snapshot(KnownItems<Decision>),
    /// A decision that differs from the last one sent in more than its averages and times, or the
    /// same one again after ten seconds: its `decided_at` shows that data still arrive. When
    /// `idle_since` ends without data for a new decision, the old one is sent without it, at its
    /// old time.
    Decided(Decision),
    /// The workload has no decider any more.
    Removed(Key),
    /// The activators whose reports the sender misses.
    Missing(MissingReports),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::decider::DecisionRule;

    #[test]
    fn lag_of_an_hpa_has_steps_and_none_on_time() {
        let lags = [0, 15_000, 29_999, 30_000, 59_999, 60_000, 500_000, -5_000, i64::MAX].map(hpa_lag);
        let expected = [None, None, None, Some(30), Some(30), Some(60), Some(480), None, None];
        assert_eq!(lags, expected);
        assert_eq!(hpa_lag(i64::from(u32::MAX) * 1000), Some(30 << 27));
    }

    #[test]
    fn is_outdated_when_panic_wants_more_than_decided() {
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
        assert!(!is_outdated(40.0, (4, 2, true)), "already decided");
        assert!(is_outdated(50.0, (4, 2, true)), "more than the panic has decided");
        assert!(is_outdated(50.0, (4, 4, true)), "its pods are ready");
        assert!(is_outdated(20.0, (1, 0, false)), "no pod is ready yet");
        assert!(!is_outdated(f64::NAN, (1, 1, true)));
    }
}
