//! Weighting of the seconds of a window.

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
    /// Parses the annotation's value. As in Knative, an empty value means the default.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "linear" => Some(Self::Linear),
            "weighted-exponential" => Some(Self::WeightedExponential),
            _ => None,
        }
    }
}
