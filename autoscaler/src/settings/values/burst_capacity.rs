//! The setting `target-burst-capacity`: when activators are in the path of a workload with pods.
//!
//! Knative writes it as a number with two special values, -1 and 0. They are parsed here once, so
//! that no rule compares floats.

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
}

// === impl BurstCapacity ===

impl BurstCapacity {
    pub(in crate::settings) const FORMAT: Format<Self> = Format {
        words: "0 or more, or -1",
        parse: |text| number(text, |v| v >= 0.0 || v == -1.0).map(Self::from),
        print: |capacity| Some(capacity.value().to_string()),
    };

    /// The number that stands for it in settings and traces.
    pub fn value(self) -> f64 {
        match self {
            Self::Always => -1.0,
            Self::Never => 0.0,
            Self::Spare(requests) => requests,
        }
    }
}

impl Default for BurstCapacity {
    /// Knative's default.
    fn default() -> Self {
        Self::Spare(211.0)
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
            [(-1.0, BurstCapacity::Always), (0.0, BurstCapacity::Never), (211.0, BurstCapacity::default())]
        {
            assert_eq!(BurstCapacity::from(value), capacity);
            assert_eq!(capacity.value(), value);
        }
    }
}
