//! How a window weighs its seconds.

/// How a window weighs its seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// All seconds weigh the same.
    Linear,
    /// Newer seconds weigh more.
    WeightedExponential,
}

// === impl Aggregation ===

impl Aggregation {
    /// Reads the annotation's value. In Knative an empty text stands for the default.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "linear" => Some(Self::Linear),
            "weighted-exponential" | "weightedExponential" => Some(Self::WeightedExponential),
            _ => None,
        }
    }
}
