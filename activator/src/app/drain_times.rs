//! How long the steps of a drain may take.

use std::time::Duration;

use crate::args::Limits;

/// The bounds of both steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DrainTimes {
    /// For new connections: see [`Limits::longest_drain_grace`].
    pub(crate) accepting: Duration,
    /// For requests after that: see [`Limits::drain_timeout`].
    pub(crate) ending: Duration,
}

// === impl DrainTimes ===

impl DrainTimes {
    /// As configured. If the kubelet gives less time, both steps are shorter by the same factor.
    pub(crate) fn new(limits: &Limits, grace_period: Option<Duration>) -> Self {
        let (accepting, ending) = (limits.longest_drain_grace, limits.drain_timeout);
        let configured = accepting + ending;
        match grace_period.filter(|given| *given < configured) {
            Some(given) => {
                let share = given.div_duration_f64(configured);
                Self { accepting: accepting.mul_f64(share), ending: ending.mul_f64(share) }
            }
            None => Self { accepting, ending },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of rounding to nanoseconds.
    const ROUNDED: Duration = Duration::from_nanos(2);

    fn limits(accepting: u64, ending: u64) -> Limits {
        Limits {
            longest_drain_grace: Duration::from_millis(accepting),
            drain_timeout: Duration::from_millis(ending),
            ..Limits::default()
        }
    }

    #[test]
    fn installed_activator_drains_as_configured_in_its_own_grace_period() {
        let (limits, own) = (Limits::default(), Duration::from_secs(120));
        let configured = DrainTimes { accepting: limits.longest_drain_grace, ending: limits.drain_timeout };
        assert_eq!(DrainTimes::new(&limits, Some(own)), configured);
        assert_eq!(DrainTimes::new(&limits, None), configured);
    }

    proptest! {
        #[test]
        fn no_drain_takes_longer_than_the_kubelet_gives_or_than_configured(
            accepting in 0..100_000u64,
            ending in 0..100_000u64,
            given in 0..200_000u64,
        ) {
            let (limits, given) = (limits(accepting, ending), Duration::from_millis(given));
            let times = DrainTimes::new(&limits, Some(given));
            let (total, configured) =
                (times.accepting + times.ending, limits.longest_drain_grace + limits.drain_timeout);
            let expected = configured.min(given);
            prop_assert!(total <= expected + ROUNDED && total + ROUNDED >= expected, "{times:?}");
            prop_assert!(times.accepting <= limits.longest_drain_grace + ROUNDED);
            prop_assert!(times.ending <= limits.drain_timeout + ROUNDED);
        }
    }
}
