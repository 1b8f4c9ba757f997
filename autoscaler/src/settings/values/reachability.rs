//! Whether a route leads to a workload.
//!
//! A user annotates a workload as `Unreachable` when it is out of use: the old half of a blue-green
//! pair, or a version without a route. The annotation has these effects:
//!
//! - minimum scale, initial scale and pod retention period do not apply;
//! - scale-down delay and scale-down rate do not apply;
//! - the workload can go to zero from any size, also without `scale-to-zero: "true"`.
//!
//! The activator path probe before zero still applies: a request that arrives nevertheless is
//! served.

use crate::settings::setting::Format;

/// Whether a route leads to a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reachability {
    /// Requests can reach the workload.
    #[default]
    Reachable,
    /// No route leads to the workload.
    Unreachable,
}

// === impl Reachability ===

impl Reachability {
    pub(in crate::settings) const FORMAT: Format<Self> = Format {
        words: "Reachable or Unreachable",
        parse: Self::parse,
        print: |reachability| Some(format!("{reachability:?}")),
    };

    /// Whether requests can reach the workload.
    pub fn is_reachable(self) -> bool {
        self == Self::Reachable
    }

    /// Parses the annotation's value.
    fn parse(text: &str) -> Option<Self> {
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
    fn parses_only_the_two_exact_values() {
        assert_eq!(Reachability::parse("Reachable"), Some(Reachable));
        assert_eq!(Reachability::parse("Unreachable"), Some(Unreachable));
        assert_eq!(Reachability::parse("unreachable"), None);
        assert_eq!(Reachability::parse(""), None);
        assert!(Reachable.is_reachable() && !Unreachable.is_reachable());
    }
}
