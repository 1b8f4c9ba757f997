//! Weighting of the seconds of a window.

use crate::settings::setting::Format;

/// Weighting of the seconds of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// All seconds have the same weight.
    Linear,
    /// Newer seconds have more weight.
    WeightedExponential,
}

// === impl Aggregation ===

impl Aggregation {
    /// As in Knative, an empty value means the default.
    pub(in crate::settings) const FORMAT: Format<Self> = Format {
        words: "linear or weighted-exponential",
        parse: |text| match text {
            "" | "linear" => Some(Self::Linear),
            "weighted-exponential" => Some(Self::WeightedExponential),
            _ => None,
        },
        print: |aggregation| match aggregation {
            Self::Linear => Some("linear".to_owned()),
            Self::WeightedExponential => Some("weighted-exponential".to_owned()),
        },
    };
}
