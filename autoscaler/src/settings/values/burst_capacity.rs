//! The setting `target-burst-capacity`: when activators are in the path of a workload with pods.
//!
//! Knative writes it as a number with two special values, -1 and 0. They are parsed here once, so
//! that no rule compares floats. Without a number it follows from what the pods can carry.

use std::fmt;

use crate::settings::formats::number;
use crate::settings::setting::Format;

/// Spare capacity that the ready pods must have before the activators leave the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BurstCapacity {
    /// -1: the activators never leave the path.
    Always,
    /// 0: the activators leave the path as soon as a pod is ready.
    Never,
    /// Concurrent requests that the pods must be able to take on top of the load.
    Spare(f64),
    /// As many as the number of ready pods and their capacity suggest.
    BySize,
}

const AUTO: &str = "auto";
/// Share of its capacity that a pod carries at a target that names no capacity. Knative's default.
const UTILIZATION: f64 = 0.7;
/// Least capacity of a pod at which requests that are spread by chance fit between the target of
/// 70 % and the capacity: `0.3 × capacity ≥ 1.5 × √capacity`.
const LEAST_CAPACITY: f64 = 25.0;
/// Standard deviations of the requests on a full pod that are kept free, if each request selects
/// its pod by chance.
const DEVIATIONS: f64 = 1.5;

// === impl BurstCapacity ===

impl BurstCapacity {
    /// Knative's default: the most by size.
    pub(crate) const MOST: f64 = 211.0;

    pub(in crate::settings) const FORMAT: Format<Self> = Format {
        words: "auto, 0 or more, or -1",
        parse: |text| match text {
            AUTO => Some(Self::BySize),
            text => number(text, |v| v >= 0.0 || v == -1.0).map(Self::from),
        },
        print: |capacity| Some(capacity.to_string()),
    };

    /// The number that stands for it in settings and traces; `None` by size.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Always => Some(-1.0),
            Self::Never => Some(0.0),
            Self::Spare(requests) => Some(requests),
            Self::BySize => None,
        }
    }

    /// The requests that a pod can carry, by its target and its limit.
    ///
    /// A target far below the limit shows that responses get slow long before the limit. Past the
    /// activators, a pod that chance gives more than others then has no queue that protects it.
    pub(crate) fn capacity(target: f64, limit: f64) -> f64 {
        (target / UTILIZATION).min(limit)
    }

    /// The requests by size of `ready` pods that can carry `capacity` each.
    ///
    /// Kubernetes selects pods by chance, activators by their load. So the requests on a pod differ
    /// by their square root, and pods need that much room without activators. Small pods have too
    /// little of it, and keep Knative's number.
    pub(crate) fn by_size(ready: u32, capacity: f64) -> f64 {
        if capacity < LEAST_CAPACITY {
            return Self::MOST;
        }
        (f64::from(ready) * DEVIATIONS * capacity.sqrt()).min(Self::MOST)
    }
}

impl fmt::Display for BurstCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => value.fmt(f),
            None => f.write_str(AUTO),
        }
    }
}

impl From<f64> for BurstCapacity {
    fn from(value: f64) -> Self {
        if value < 0.0 {
            Self::Always
        } else if value == 0.0 {
            Self::Never
        } else {
            Self::Spare(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_the_number_it_was_parsed_from() {
        for (value, capacity) in
            [(-1.0, BurstCapacity::Always), (0.0, BurstCapacity::Never), (211.0, BurstCapacity::Spare(211.0))]
        {
            assert_eq!(BurstCapacity::from(value), capacity);
            assert_eq!(capacity.value(), Some(value));
        }
        assert_eq!(BurstCapacity::BySize.value(), None);
        assert_eq!((BurstCapacity::FORMAT.parse)("auto"), Some(BurstCapacity::BySize));
    }

    #[test]
    fn room_grows_with_pods_and_capacity_up_to_that_of_knative() {
        let room = BurstCapacity::by_size;
        assert_eq!([1, 2, 14, 15].map(|pods| room(pods, 100.0)), [15.0, 30.0, 210.0, 211.0]);
        assert_eq!([24.9, 25.0, 400.0].map(|capacity| room(1, capacity)), [211.0, 7.5, 30.0]);
    }
}
