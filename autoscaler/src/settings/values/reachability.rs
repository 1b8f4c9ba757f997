//! Whether requests can reach a workload at all.
//!
//! A user annotates a workload as `Unreachable` when it is out of use: the old half of a blue-green pair, or a version
//! without a route. From then on:
//!
//! - there is no smallest and no initial size, and the last pod is not retained;
//! - decisions are neither held nor limited on their way down;
//! - zero is reached from any size, also without `scale-to-zero: "true"`.
//!
//! The activator path probe before zero stays: a request that arrives nevertheless is served.

/// Whether requests can reach a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reachability {
    /// Requests can arrive.
    #[default]
    Reachable,
    /// No route leads to the workload.
    Unreachable,
}

// === impl Reachability ===

impl Reachability {
    /// Whether requests can arrive.
    pub fn is_reachable(self) -> bool {
        self == Self::Reachable
    }

    /// Reads the annotation's value.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "Reachable" => Some(Self::Reachable),
            "Unreachable" => Some(Self::Unreachable),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reachability::{Reachable, Unreachable};
    use super::*;

    #[test]
    fn parses_two_values_and_nothing_else() {
        assert_eq!(Reachability::parse("Reachable"), Some(Reachable));
        assert_eq!(Reachability::parse("Unreachable"), Some(Unreachable));
        assert_eq!(Reachability::parse("unreachable"), None);
        assert_eq!(Reachability::parse(""), None);
        assert!(Reachable.is_reachable() && !Unreachable.is_reachable());
    }
}
