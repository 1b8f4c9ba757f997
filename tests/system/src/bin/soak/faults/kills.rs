//! Kills, and which of the failed requests each of them explains.
//!
//! A request that was in flight at a kill may fail: the killed process held it. A request that began
//! after the kill of an activator failed because the slices, or a node's rules, still led there.

use std::collections::BTreeMap;

use system_tests::traffic::load::Response;

/// Time after a kill in which failures are ascribed to it, in milliseconds. Less than from one kill
/// to the next.
const ASCRIBED: f64 = 15_000.0;

/// A killed process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    pub(super) part: &'static str,
    /// Unix milliseconds of the signal.
    pub(super) at_ms: f64,
}

/// Failed requests by the kill that explains them.
#[derive(Debug, Default)]
pub(super) struct FailuresByKill {
    /// In flight at the kill, by the killed part.
    pub(super) in_flight: BTreeMap<&'static str, usize>,
    /// Begun after it, with the milliseconds from the kill to the last of them.
    pub(super) begun_after: BTreeMap<&'static str, (usize, f64)>,
    /// Far from any kill.
    pub(super) unexplained: usize,
}

// === impl FailuresByKill ===

impl FailuresByKill {
    pub(super) fn of(failed: &[Response], kills: &[Kill]) -> Self {
        let mut this = Self::default();
        for response in failed {
            this.add(response, kills);
        }
        this
    }

    fn add(&mut self, response: &Response, kills: &[Kill]) {
        let end = response.sent_ms + response.ms;
        let last = kills.iter().rev().find(|kill| kill.at_ms <= end);
        let Some(kill) = last.filter(|kill| end - kill.at_ms <= ASCRIBED) else {
            self.unexplained += 1;
            return;
        };
        let begun = response.sent_ms - kill.at_ms;
        if begun <= 0.0 {
            *self.in_flight.entry(kill.part).or_default() += 1;
        } else {
            let (count, latest) = self.begun_after.entry(kill.part).or_default();
            (*count, *latest) = (*count + 1, latest.max(begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascribes_failures_to_the_kill_before_their_end() {
        let kills = [Kill { part: "a", at_ms: 1000.0 }, Kill { part: "b", at_ms: 21_000.0 }];
        let failed = |sent_ms: f64, ms: f64| Response { sent_ms, ms, ..Response::default() };
        let all = [
            failed(500.0, 100.0),
            failed(990.0, 20.0),
            failed(1010.0, 1.0),
            failed(1500.0, 1.0),
            failed(17_000.0, 1.0),
            failed(20_900.0, 200.0),
        ];
        let by_kill = FailuresByKill::of(&all, &kills);
        assert_eq!(by_kill.in_flight, BTreeMap::from([("a", 1), ("b", 1)]));
        assert_eq!(by_kill.begun_after, BTreeMap::from([("a", (2, 500.0))]));
        assert_eq!(by_kill.unexplained, 2);
    }
}
