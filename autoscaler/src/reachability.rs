//! Whether requests can come to a workload at all, and what state that puts it in.
//!
//! ```text
//!               pods wanted                          the annotation says Unreachable
//!   Reserve ◄───────────────► Active      either ◄──────────────────────────────────► Retired
//!               at zero
//! ```
//!
//! Input: the annotation `reachability`, the target's size and what is wanted. Output: the state that people read in a
//! PodAutoscaler's status. Somebody who takes a workload out of use (the old half of a blue-green pair, a version that no
//! route leads to any more) marks it as unreachable. Then, at once, there is no smallest size and no initial size, the last
//! pod is not retained, decisions are neither held nor limited on their way down, and zero is reached from any size, also by
//! a workload that does not ask for scale-to-zero. The proofs before zero stay: a request that comes all the same is served.

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether requests can come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reachability {
    /// They can.
    #[default]
    Reachable,
    /// No route leads here.
    Unreachable,
}

/// What use a workload is in. Active: requests can come, and there are pods or some are wanted. Reserve: at zero, until a
/// request comes. Retired: no requests can come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
pub enum State {
    /// Requests can come, and there are pods, or some are wanted.
    Active,
    /// Requests can come, and would wake it from zero.
    Reserve,
    /// No requests can come any more.
    Retired,
}

// === impl Reachability ===

impl Reachability {
    /// Whether requests can come.
    pub fn is_reachable(self) -> bool {
        self == Self::Reachable
    }

    /// The annotation's value.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "Reachable" => Some(Self::Reachable),
            "Unreachable" => Some(Self::Unreachable),
            _ => None,
        }
    }
}

// === impl State ===

impl State {
    /// The state of a workload of this size. `wanted` is `None` while nothing is known: then only the size counts.
    pub fn of(reachability: Reachability, replicas: u32, wanted: Option<u32>) -> Self {
        match (reachability, replicas, wanted) {
            (Reachability::Unreachable, _, _) => Self::Retired,
            (Reachability::Reachable, 0, None | Some(0)) => Self::Reserve,
            (Reachability::Reachable, _, _) => Self::Active,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reachability::{Reachable, Unreachable};
    use super::*;

    #[test]
    fn a_workload_is_in_reserve_only_at_zero_with_nobody_asking() {
        for (reachability, replicas, wanted, state) in [
            (Reachable, 0, None, State::Reserve),
            (Reachable, 0, Some(0), State::Reserve),
            (Reachable, 0, Some(1), State::Active),
            (Reachable, 1, None, State::Active),
            // On the way to zero, but not there.
            (Reachable, 1, Some(0), State::Active),
            (Reachable, 1, Some(1), State::Active),
            (Unreachable, 0, None, State::Retired),
            (Unreachable, 0, Some(0), State::Retired),
            (Unreachable, 0, Some(1), State::Retired),
            (Unreachable, 1, None, State::Retired),
            (Unreachable, 1, Some(0), State::Retired),
            (Unreachable, 1, Some(1), State::Retired),
        ] {
            assert_eq!(
                State::of(reachability, replicas, wanted),
                state,
                "{reachability:?} {replicas} {wanted:?}"
            );
        }
    }

    #[test]
    fn the_annotation_is_one_of_two_words() {
        assert_eq!(Reachability::parse("Reachable"), Some(Reachable));
        assert_eq!(Reachability::parse("Unreachable"), Some(Unreachable));
        assert_eq!(Reachability::parse("unreachable"), None);
        assert_eq!(Reachability::parse(""), None);
        assert!(Reachable.is_reachable() && !Unreachable.is_reachable());
    }
}
