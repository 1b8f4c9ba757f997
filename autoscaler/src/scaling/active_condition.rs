//! The Active condition: whether a workload has the pods it wants.
//!
//! Input: the desired pods (0 once the scale-to-zero sequence begins), the ready pods, and the
//! previous condition. Output: the new condition, for the PodAutoscaler's status and the next step
//! of the scale-to-zero sequence. The table is Knative's (`computeActiveCondition` in kpa.go).
//!
//! | desired | ready | previous | new |
//! |---|---|---|---|
//! | 0 | any | Activating | Inactive, timed out |
//! | 0 | any | other | Inactive, no traffic |
//! | any | any, when 0 are needed | any | Inactive, no traffic |
//! | > 0 | too few | any | Activating |
//! | > 0 | enough | any | Active |
//! | unknown | too few | Inactive | Inactive |
//! | unknown | too few | other | Activating |
//! | unknown | enough | Inactive | Inactive |
//! | unknown | enough | other | Active |
//!
//! 0 are needed only while a workload is new and may start at zero. Different from Knative: a
//! workload that timed out keeps that reason while it is inactive, so that it stays visible in the
//! status.

use crate::scaling::scale_to_zero::ActivePhase;

/// Phase and reason of the Active condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveCondition {
    /// Its status: True, Unknown or False.
    pub phase: ActivePhase,
    pub reason: ActiveReason,
}

/// Why the Active condition has its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveReason {
    /// Enough pods are ready.
    PodsReady,
    /// Requests are held, or may arrive, while pods start.
    Queued,
    /// No requests.
    NoTraffic,
    /// Pods were wanted, never became ready, and are not wanted any more.
    TimedOut,
}

// === impl ActiveReason ===

impl ActiveReason {
    /// The condition's reason, as the API shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PodsReady => "PodsReady",
            Self::Queued => "Queued",
            Self::NoTraffic => "NoTraffic",
            Self::TimedOut => "TimedOut",
        }
    }

    /// The inverse of [`as_str`](Self::as_str).
    pub fn parse(text: &str) -> Option<Self> {
        [Self::PodsReady, Self::Queued, Self::NoTraffic, Self::TimedOut]
            .into_iter()
            .find(|r| r.as_str() == text)
    }
}

/// The new condition. `before` is `None` for a new workload.
///
/// With `min_ready` ready pods the workload is active; see
/// [`ScaleBounds::min_ready`](crate::scaling::scale_bounds::ScaleBounds::min_ready).
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

    /// Wanted, (ready, needed), before, now.
    type Row =
        (&'static [Option<u32>], &'static [(u32, u32)], &'static [Option<ActiveCondition>], ActiveCondition);

    const TOO_FEW: &[(u32, u32)] = &[(0, 1), (0, 2), (1, 2)];
    const ENOUGH: &[(u32, u32)] = &[(1, 1), (2, 1), (2, 2), (3, 2)];
    const NONE_NEEDED: &[(u32, u32)] = &[(0, 0), (1, 0), (2, 0)];
    const SOME_NEEDED: &[(u32, u32)] = &[(0, 1), (0, 2), (1, 2), (1, 1), (2, 1), (2, 2), (3, 2)];

    /// computeActiveCondition in kpa.go, and a new workload (`before` is `None`), which Knative
    /// calls Activating: there a new workload cannot want 0. Rows that keep TIMED_OUT are specific
    /// to Rouse.
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
    fn matches_table_for_all_combinations() {
        let mut cases = 0;
        for (wanted, pods, before, now) in TABLE {
            for (&wanted, &(ready, needed), &before) in wanted
                .iter()
                .flat_map(|w| pods.iter().flat_map(move |p| before.iter().map(move |b| (w, p, b))))
            {
                let got = compute_active_condition(wanted, ready, needed, before);
                assert_eq!(got, *now, "wanted {wanted:?}, {ready} of {needed} ready, {before:?}");
                cases += 1;
            }
        }
        // Each of 4 desired sizes, 10 pairs of pods and 5 previous conditions is in the table once.
        assert_eq!(cases, 4 * 10 * 5);
    }

    #[test]
    fn parses_reason_from_its_text() {
        for reason in
            [ActiveReason::PodsReady, ActiveReason::Queued, ActiveReason::NoTraffic, ActiveReason::TimedOut]
        {
            assert_eq!(ActiveReason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(ActiveReason::parse("Paused"), None);
    }
}
