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
//! | any | any, when none need be | any | Inactive, no traffic |
//! | > 0 | too few | any | Activating |
//! | > 0 | enough | any | Active |
//! | unknown | too few | Inactive | Inactive |
//! | unknown | too few | other | Activating |
//! | unknown | enough | Inactive | Inactive |
//! | unknown | enough | other | Active |
//!
//! None need be ready only while a workload is new and may start asleep. What differs from Knative: a workload that timed out
//! keeps that reason for as long as it is inactive, so that people can still see it.

use crate::scaling::scale_to_zero::ActivePhase;

/// What the Active condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveCondition {
    /// Its status: True, Unknown or False.
    pub phase: ActivePhase,
    /// Its reason.
    pub reason: ActiveReason,
}

/// Why the Active condition says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveReason {
    /// Enough pods are ready.
    PodsReady,
    /// Requests wait, or may come, while pods start.
    Queued,
    /// Nobody asks.
    NoTraffic,
    /// Pods were wanted, never became ready, and are not wanted any more.
    TimedOut,
}

// === impl ActiveReason ===

impl ActiveReason {
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
///
/// `min_ready` is how many pods make it active; see [`ScaleBounds::min_ready`](crate::scaling::scale_bounds::ScaleBounds::min_ready).
pub fn compute_active_condition(
    wanted: Option<u32>,
    ready: u32,
    min_ready: u32,
    before: Option<ActiveCondition>,
) -> ActiveCondition {
    let of = |phase, reason| ActiveCondition { phase, reason };
    let was_inactive = before.filter(|b| b.phase == ActivePhase::Inactive);
    let was_activating = before.is_some_and(|b| b.phase == ActivePhase::Activating);
    match (wanted, was_inactive) {
        (Some(0), None) if was_activating && min_ready > 0 => {
            of(ActivePhase::Inactive, ActiveReason::TimedOut)
        }
        (Some(0), None) => of(ActivePhase::Inactive, ActiveReason::NoTraffic),
        (Some(0) | None, Some(same)) => same,
        _ if min_ready == 0 => of(ActivePhase::Inactive, ActiveReason::NoTraffic),
        _ if ready >= min_ready => of(ActivePhase::Active, ActiveReason::PodsReady),
        _ => of(ActivePhase::Activating, ActiveReason::Queued),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: ActiveCondition =
        ActiveCondition { phase: ActivePhase::Active, reason: ActiveReason::PodsReady };
    const ACTIVATING: ActiveCondition =
        ActiveCondition { phase: ActivePhase::Activating, reason: ActiveReason::Queued };
    const IDLE: ActiveCondition =
        ActiveCondition { phase: ActivePhase::Inactive, reason: ActiveReason::NoTraffic };
    const TIMED_OUT: ActiveCondition =
        ActiveCondition { phase: ActivePhase::Inactive, reason: ActiveReason::TimedOut };

    const ANY: [Option<ActiveCondition>; 5] =
        [None, Some(ACTIVE), Some(ACTIVATING), Some(IDLE), Some(TIMED_OUT)];

    /// Wanted, (ready, least that must be), before, now.
    type Row =
        (&'static [Option<u32>], &'static [(u32, u32)], &'static [Option<ActiveCondition>], ActiveCondition);

    const TOO_FEW: &[(u32, u32)] = &[(0, 1), (0, 2), (1, 2)];
    const ENOUGH: &[(u32, u32)] = &[(1, 1), (2, 1), (2, 2), (3, 2)];
    const NONE_NEEDED: &[(u32, u32)] = &[(0, 0), (1, 0), (2, 0)];
    const SOME_NEEDED: &[(u32, u32)] = &[(0, 1), (0, 2), (1, 2), (1, 1), (2, 1), (2, 2), (3, 2)];

    /// computeActiveCondition in kpa.go, and for `before` also a workload never seen, which Knative calls Activating: there
    /// it has no way to be wanted at 0. Rows that keep TIMED_OUT are ours.
    const TABLE: &[Row] = &[
        (&[Some(0)], SOME_NEEDED, &[Some(ACTIVATING)], TIMED_OUT),
        (&[Some(0)], SOME_NEEDED, &[None, Some(ACTIVE), Some(IDLE)], IDLE),
        (&[Some(0), None], SOME_NEEDED, &[Some(TIMED_OUT)], TIMED_OUT),
        (&[Some(0), None], NONE_NEEDED, &[Some(TIMED_OUT)], TIMED_OUT),
        (&[Some(0), None], NONE_NEEDED, &[None, Some(ACTIVE), Some(ACTIVATING), Some(IDLE)], IDLE),
        (&[Some(1), Some(5)], NONE_NEEDED, &ANY, IDLE),
        (&[Some(1), Some(5)], TOO_FEW, &ANY, ACTIVATING),
        (&[Some(1), Some(5)], ENOUGH, &ANY, ACTIVE),
        (&[None], SOME_NEEDED, &[Some(IDLE)], IDLE),
        (&[None], TOO_FEW, &[None, Some(ACTIVE), Some(ACTIVATING)], ACTIVATING),
        (&[None], ENOUGH, &[None, Some(ACTIVE), Some(ACTIVATING)], ACTIVE),
    ];

    #[test]
    fn follows_the_table_in_every_case() {
        let mut cases = 0;
        for (wanted, pods, before, now) in TABLE {
            for (&wanted, &(ready, least), &before) in wanted
                .iter()
                .flat_map(|w| pods.iter().flat_map(move |p| before.iter().map(move |b| (w, p, b))))
            {
                let got = compute_active_condition(wanted, ready, least, before);
                assert_eq!(got, *now, "wanted {wanted:?}, {ready} of {least} ready, {before:?}");
                cases += 1;
            }
        }
        // Each of 4 wants, 10 pairs of pods and 5 pasts stands in the table once.
        assert_eq!(cases, 4 * 10 * 5);
    }

    #[test]
    fn reasons_are_read_back() {
        for reason in
            [ActiveReason::PodsReady, ActiveReason::Queued, ActiveReason::NoTraffic, ActiveReason::TimedOut]
        {
            assert_eq!(ActiveReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(ActiveReason::parse("Paused"), None);
    }
}
