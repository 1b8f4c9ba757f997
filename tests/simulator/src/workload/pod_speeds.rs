//! PodSpeeds: pods that serve a request slower than the app does.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::clock::Time;
use crate::workload::pod::{Pod, PodId, PodPhase};

/// Accepted factors on the service time.
pub const FACTORS: RangeInclusive<f64> = 0.01..=100.0;

/// Factors on the service time of single pods. By default all pods have the same speed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PodSpeeds {
    /// The factor in the first seconds of a pod.
    pub warm_up: Option<(Duration, f64)>,
    /// The factor of each pod with a number that this divides.
    pub slow_pods: Option<(PodId, f64)>,
}

// === impl PodSpeeds ===

impl PodSpeeds {
    /// Whether all factors are in their range.
    pub fn are_valid(&self) -> bool {
        let factors = self.warm_up.map(|(_, factor)| factor).into_iter();
        factors.chain(self.slow_pods.map(|(_, factor)| factor)).all(|factor| FACTORS.contains(&factor))
    }

    /// Factor on the service time of a request that this pod starts now.
    pub fn factor(&self, id: PodId, pod: &Pod, now: Time) -> f64 {
        let is_cold =
            |time| matches!(pod.phase(), PodPhase::Ready { since } if now.saturating_sub(since) < time);
        let warm_up = self.warm_up.filter(|(time, _)| is_cold(*time)).map_or(1.0, |(_, factor)| factor);
        let slow = self.slow_pods.filter(|(every, _)| id.is_multiple_of(*every));
        warm_up * slow.map_or(1.0, |(_, factor)| factor)
    }
}
