//! The smallest and the largest size of a workload.
//!
//! ```text
//!  desired ─► at least min, and the initial size until it was reached once ─► at most max
//!                                                     (0: the scale-to-zero sequence follows)
//! ```
//!
//! Input: the settings, which combine spec, annotations and cluster configuration. Output: the size
//! that the zero-scaler writes; the decider works without bounds. The rules are the first two steps
//! of Knative's scaler (`pkg/reconciler/autoscaling/kpa/scaler.go`), with one exception: the
//! largest size limits the initial size, which in Knative may exceed it.
//!
//! What surprises: the smallest size holds above zero only. A workload that may scale to zero goes
//! from it to 0, so [`ScaleBounds::resting`] is never 0.

use crate::settings::Settings;

/// Size bounds of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleBounds {
    /// Smallest size; 0 means no bound.
    min: u32,
    /// Largest size; 0 means no bound.
    max: u32,
    /// Pods that must be ready once before the workload counts as initialized. 0: it may start at
    /// zero.
    initial: u32,
    /// Whether `initial` is still to be reached.
    initial_pending: bool,
}

// === impl ScaleBounds ===

impl ScaleBounds {
    /// The bounds of these settings. `initialized`: whether the initial size was reached once.
    pub fn new(settings: &Settings, initialized: bool) -> Self {
        let reachable = settings.zero.reachability.is_reachable();
        Self {
            min: if reachable { settings.scale.min } else { 0 },
            max: settings.scale.max,
            initial: if reachable { settings.scale.initial } else { 1 },
            initial_pending: !initialized,
        }
    }

    /// The same bounds without an initial size, for a workload that an HPA scales: it starts from
    /// the current size.
    pub fn without_initial(self) -> Self {
        Self { initial: self.initial.min(1), ..self }
    }

    /// `desired` within the bounds. `desired` is `None` without a decision. Then the result is
    /// `None` as well, except for a workload whose pods are starting, which needs its smallest
    /// size.
    pub fn clamp(&self, desired: Option<u32>, activating: bool) -> Option<u32> {
        match desired {
            Some(desired) => Some(self.within(desired)),
            None => Some(self.smallest()).filter(|smallest| activating && *smallest > 0),
        }
    }

    /// The size above zero of a workload that wants `desired` pods. Never 0.
    pub fn above_zero(&self, desired: u32) -> u32 {
        self.within(desired).max(1)
    }

    /// The size of an idle workload before it goes to zero. Never 0.
    pub fn resting(&self) -> u32 {
        self.above_zero(0)
    }

    /// Pods that must be ready for the workload to be active. 0 only for a new one that may start
    /// at zero.
    ///
    /// `zero_allowed`: whether the workload may be at zero at all.
    pub fn min_ready(&self, zero_allowed: bool) -> u32 {
        if self.initial_pending && self.initial == 0 && zero_allowed { 0 } else { self.resting() }
    }

    fn smallest(&self) -> u32 {
        let smallest = if self.initial_pending { self.min.max(self.initial_size()) } else { self.min };
        self.at_most_max(smallest)
    }

    /// An initial size of 1 is ignored: it would keep every new workload above zero.
    fn initial_size(&self) -> u32 {
        if self.initial > 1 { self.initial } else { 0 }
    }

    fn within(&self, desired: u32) -> u32 {
        self.at_most_max(desired.max(self.smallest()))
    }

    fn at_most_max(&self, size: u32) -> u32 {
        if self.max > 0 { size.min(self.max) } else { size }
    }
}

#[cfg(test)]
mod tests {
    //! Golden rows of Knative's `pkg/reconciler/autoscaling/kpa/scaler_test.go` that concern
    //! bounds.

    use proptest::prelude::*;

    use super::*;
    use crate::settings::AutoscalerConfig;
    use crate::settings::Reachability::{self, Reachable, Unreachable};

    fn bounds(
        min: u32,
        max: u32,
        initial: u32,
        reachability: Reachability,
        initialized: bool,
    ) -> ScaleBounds {
        let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
        (settings.scale.min, settings.scale.max, settings.scale.initial) = (min, max, initial);
        settings.zero.reachability = reachability;
        ScaleBounds::new(&settings, initialized)
    }

    #[test]
    fn clamps_desired_size_like_knative() {
        let (yes, no) = (true, false);
        // The scale-to-zero sequence starts from 0.
        for (row, bounds, desired, activating, size) in [
            ("Z1", bounds(0, 0, 1, Reachable, yes), Some(0), no, Some(0)),
            ("Z20", bounds(2, 0, 1, Reachable, yes), Some(0), no, Some(2)),
            ("Z21", bounds(2, 0, 1, Unreachable, yes), Some(0), no, Some(0)),
            ("scales up", bounds(0, 0, 1, Reachable, yes), Some(10), no, Some(10)),
            ("Z24", bounds(0, 8, 1, Reachable, yes), Some(10), no, Some(8)),
            ("Z25", bounds(0, 0, 1, Reachable, yes), None, no, None),
            ("Z26", bounds(2, 0, 5, Reachable, no), None, no, None),
            ("Z27", bounds(0, 0, 2, Reachable, no), Some(1), yes, Some(2)),
            ("Z28", bounds(0, 0, 5, Reachable, no), Some(1), yes, Some(5)),
            ("Z29", bounds(0, 0, 2, Reachable, yes), Some(0), no, Some(0)),
            ("Z30", bounds(0, 0, 2, Unreachable, no), Some(0), no, Some(0)),
            ("Z32", bounds(0, 0, 0, Reachable, no), Some(0), no, Some(0)),
            ("TestDisableScaleToZero", bounds(2, 0, 1, Reachable, yes), Some(0), no, Some(2)),
            // Not rows, but the same rule: without a decision, starting pods get the smallest size
            // above 0.
            ("unknown, activating", bounds(2, 0, 1, Reachable, yes), None, yes, Some(2)),
            ("unknown, activating", bounds(0, 0, 5, Reachable, no), None, yes, Some(5)),
            ("unknown, activating", bounds(0, 0, 1, Reachable, no), None, yes, None),
            ("unknown, activating", bounds(2, 0, 5, Unreachable, no), None, yes, None),
            ("within", bounds(2, 8, 1, Reachable, yes), Some(5), no, Some(5)),
            ("max 1", bounds(0, 1, 1, Reachable, yes), Some(5), no, Some(1)),
            // Knative gives 5: its initial size replaces the smallest size, which overrides the
            // largest.
            ("initial over max", bounds(0, 3, 5, Reachable, no), Some(1), no, Some(3)),
        ] {
            assert_eq!(bounds.clamp(desired, activating), size, "{row}: {bounds:?} {desired:?}");
        }
    }

    #[test]
    fn resting_size_is_the_minimum_and_never_zero() {
        assert_eq!(bounds(0, 0, 1, Reachable, true).resting(), 1);
        assert_eq!(bounds(2, 0, 1, Reachable, true).resting(), 2);
        assert_eq!(bounds(2, 0, 5, Reachable, false).resting(), 5);
        assert_eq!(bounds(2, 0, 5, Unreachable, false).resting(), 1);
        assert_eq!(bounds(2, 0, 5, Reachable, false).without_initial().resting(), 2);
        assert_eq!(bounds(0, 0, 1, Reachable, true).above_zero(7), 7);
    }

    #[test]
    fn min_ready_is_minimum_or_initial_size_of_new_workload() {
        // activeThreshold in kpa.go. The initial size does not matter for an unreachable workload
        // here.
        for (bounds, zero_allowed, ready) in [
            (bounds(0, 0, 1, Reachable, true), true, 1),
            (bounds(3, 0, 1, Reachable, true), true, 3),
            (bounds(3, 0, 5, Reachable, true), true, 3),
            (bounds(3, 0, 5, Reachable, false), true, 5),
            (bounds(6, 0, 5, Reachable, false), true, 6),
            (bounds(3, 0, 5, Unreachable, false), true, 1),
            (bounds(0, 0, 0, Reachable, false), true, 0),
            (bounds(2, 0, 0, Reachable, false), true, 0),
            (bounds(0, 0, 0, Reachable, false), false, 1),
            (bounds(0, 0, 0, Reachable, true), true, 1),
            (bounds(0, 0, 0, Unreachable, false), true, 1),
            (bounds(0, 0, 0, Reachable, false).without_initial(), true, 0),
            (bounds(3, 0, 5, Reachable, false).without_initial(), true, 3),
        ] {
            assert_eq!(bounds.min_ready(zero_allowed), ready, "{bounds:?} {zero_allowed}");
        }
    }

    proptest! {
        #[test]
        fn size_stays_within_bounds(
            min in 0u32..20, more in 0u32..20, initial in 0u32..50, desired: u32, reachable: bool, initialized: bool,
        ) {
            let max = if more == 0 { 0 } else { min + more };
            let reachability = if reachable { Reachable } else { Unreachable };
            let bounds = bounds(min, max, initial, reachability, initialized);
            for size in [bounds.clamp(Some(desired), false), Some(bounds.above_zero(desired))].into_iter().flatten() {
                prop_assert!(max == 0 || size <= max);
                prop_assert!(!reachable || size >= min);
            }
            let once = bounds.clamp(Some(desired), false);
            prop_assert_eq!(bounds.clamp(once, false), once);
            prop_assert!(bounds.resting() >= 1);
            prop_assert!(bounds.above_zero(desired) >= bounds.resting());
        }
    }
}
