//! The Active condition: whether a workload has the pods it wants.
//!
//! Input: what is wanted (0 once the way to zero is entered), how many pods are ready, and what the condition said before.
//! Output: what it says now, for the PodAutoscaler's status and for the next step to zero. The table is Knative's
//! (`computeActiveCondition` in kpa.go).
//!
//! | wanted | ready | before | now |
//! |---|---|---|---|
//! | 0 | any | Activating | Inactive, timed out |
//! | 0 | any | other | Inactive, no traffic |
//! | > 0 | too few | any | Activating |
//! | > 0 | enough | any | Active |
//! | unknown | too few | Inactive | Inactive |
//! | unknown | too few | other | Activating |
//! | unknown | enough | Inactive | Inactive |
//! | unknown | enough | other | Active |

use crate::scale_to_zero::Phase;

/// What the Active condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Its status: True, Unknown or False.
    pub phase: Phase,
    /// Its reason.
    pub reason: Reason,
}

/// Why the Active condition says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Enough pods are ready.
    PodsReady,
    /// Requests wait, or may come, while pods start.
    Queued,
    /// Nobody asks.
    NoTraffic,
    /// Pods were wanted, never became ready, and are not wanted any more.
    TimedOut,
}

// === impl Reason ===

impl Reason {
    /// The condition's reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PodsReady => "PodsReady",
            Self::Queued => "Queued",
            Self::NoTraffic => "NoTraffic",
            Self::TimedOut => "TimedOut",
        }
    }

    /// The reason of a condition read back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::PodsReady, Self::Queued, Self::NoTraffic, Self::TimedOut]
            .into_iter()
            .find(|r| r.as_str() == text)
    }
}

/// What the condition says now. `before` is `None` for a workload never seen.
pub fn activation(wanted: Option<u32>, ready: u32, min_ready: u32, before: Option<Activation>) -> Activation {
    let of = |phase, reason| Activation { phase, reason };
    let was = before.map(|b| b.phase);
    match (wanted, before) {
        (Some(0), Some(Activation { phase: Phase::Activating, .. })) => of(Phase::Inactive, Reason::TimedOut),
        // Timed out stays the reason for as long as nothing happens.
        (Some(0), Some(same @ Activation { phase: Phase::Inactive, .. })) => same,
        (Some(0), _) => of(Phase::Inactive, Reason::NoTraffic),
        (None, Some(same)) if was == Some(Phase::Inactive) => same,
        _ if ready >= min_ready.max(1) => of(Phase::Active, Reason::PodsReady),
        _ => of(Phase::Activating, Reason::Queued),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: Activation = Activation { phase: Phase::Active, reason: Reason::PodsReady };
    const ACTIVATING: Activation = Activation { phase: Phase::Activating, reason: Reason::Queued };
    const IDLE: Activation = Activation { phase: Phase::Inactive, reason: Reason::NoTraffic };
    const TIMED_OUT: Activation = Activation { phase: Phase::Inactive, reason: Reason::TimedOut };

    #[test]
    fn follows_the_table_row_by_row() {
        for (wanted, ready, before, now) in [
            (Some(0), 0, Some(ACTIVATING), TIMED_OUT),
            (Some(0), 3, Some(ACTIVATING), TIMED_OUT),
            (Some(0), 0, Some(ACTIVE), IDLE),
            (Some(0), 3, Some(ACTIVE), IDLE),
            (Some(0), 0, Some(IDLE), IDLE),
            (Some(0), 0, Some(TIMED_OUT), TIMED_OUT),
            (Some(0), 0, None, IDLE),
            (Some(1), 1, Some(ACTIVE), ACTIVATING),
            (Some(1), 1, Some(IDLE), ACTIVATING),
            (Some(1), 0, None, ACTIVATING),
            (Some(1), 2, Some(IDLE), ACTIVE),
            (Some(5), 2, Some(ACTIVATING), ACTIVE),
            (None, 1, Some(IDLE), IDLE),
            (None, 1, Some(ACTIVE), ACTIVATING),
            (None, 1, Some(ACTIVATING), ACTIVATING),
            (None, 2, Some(IDLE), IDLE),
            (None, 2, Some(ACTIVATING), ACTIVE),
            (None, 2, None, ACTIVE),
        ] {
            assert_eq!(activation(wanted, ready, 2, before), now, "{wanted:?} {ready} {before:?}");
        }
    }

    #[test]
    fn no_pod_is_never_enough() {
        assert_eq!(activation(Some(1), 0, 0, None), ACTIVATING);
    }

    #[test]
    fn reasons_are_read_back() {
        for reason in [Reason::PodsReady, Reason::Queued, Reason::NoTraffic, Reason::TimedOut] {
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::parse("Paused"), None);
    }
}
