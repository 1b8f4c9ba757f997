//! Idleness: since when every source of a workload reports, and none has a request.
//!
//! A workload may go to zero only by this time. An average is not enough: 0 over a young or
//! incomplete window does not show idleness. Idleness starts with the first complete scrape without
//! any request (proxied ones included). It ends with a request anywhere, a pod that did not
//! respond, an activator that did not report or disconnected, or a missing scrape.

use std::time::Duration;

/// Longest time between two scrapes. They are a second apart, so a longer gap means missing data.
const MAX_GAP: Duration = Duration::from_millis(3500);
/// An activator with requests reports each second, and callers record no complete scrape while one
/// is silent. After this time without a report of a request it has none.
const ACTIVATOR_SILENCE: Duration = Duration::from_millis(2500);

/// Idleness of one workload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idleness {
    since: Option<Duration>,
    /// Time of the last complete scrape.
    last_scrape: Option<Duration>,
    /// When an activator last had a request, or when one last disconnected.
    last_activator: Option<Duration>,
}

// === impl Idleness ===

impl Idleness {
    /// All (sampled) ready pods responded and all activators reported; `idle` if no pod had a
    /// request. Without ready pods the scrape is complete as well.
    pub fn complete_scrape(&mut self, now: Duration, idle: bool) {
        let gap = self.last_scrape.is_none_or(|last| now.saturating_sub(last) > MAX_GAP);
        let activators_silent =
            self.last_activator.is_none_or(|last| now.saturating_sub(last) >= ACTIVATOR_SILENCE);
        self.last_scrape = Some(now);
        self.since = match self.since {
            _ if !idle || !activators_silent => None,
            Some(since) if !gap => Some(since),
            _ => Some(now),
        };
    }

    /// At least one pod did not respond, or one activator did not report.
    pub fn incomplete_scrape(&mut self) {
        self.since = None;
        self.last_scrape = None;
    }

    /// An activator has a request, or disconnected.
    pub fn activator(&mut self, now: Duration) {
        self.since = None;
        self.last_activator = Some(self.last_activator.map_or(now, |last| last.max(now)));
    }

    /// Since when the workload is idle; `None` if it is not, or if the last scrape is too old at
    /// `now`.
    pub fn since(&self, now: Duration) -> Option<Duration> {
        let last = self.last_scrape?;
        self.since.filter(|_| now.saturating_sub(last) <= MAX_GAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(1_600_000_000 + seconds)
    }

    #[test]
    fn starts_with_the_first_complete_idle_scrape() {
        let mut idle = Idleness::default();
        assert_eq!(idle.since(s(0)), None);
        idle.complete_scrape(s(1), false);
        assert_eq!(idle.since(s(1)), None);
        for t in 2..9 {
            idle.complete_scrape(s(t), true);
            assert_eq!(idle.since(s(t)), Some(s(2)));
        }
    }

    #[test]
    fn ends_with_a_request_an_incomplete_scrape_or_a_gap() {
        let started = || {
            let mut idle = Idleness::default();
            (1..=5).for_each(|t| idle.complete_scrape(s(t), true));
            idle
        };
        let mut busy = started();
        busy.complete_scrape(s(6), false);
        assert_eq!(busy.since(s(6)), None);

        let mut incomplete = started();
        incomplete.incomplete_scrape();
        assert_eq!(incomplete.since(s(6)), None);
        incomplete.complete_scrape(s(7), true);
        assert_eq!(incomplete.since(s(7)), Some(s(7)));

        let mut gap = started();
        assert_eq!(gap.since(s(9)), None, "no scrape for 4 s");
        gap.complete_scrape(s(9), true);
        assert_eq!(gap.since(s(9)), Some(s(9)));
    }

    #[test]
    fn request_held_by_activator_counts_until_it_stops_reporting() {
        let mut idle = Idleness::default();
        (1..=5).for_each(|t| idle.complete_scrape(s(t), true));
        idle.activator(s(5));
        assert_eq!(idle.since(s(5)), None);
        idle.complete_scrape(s(6), true);
        idle.complete_scrape(s(7), true);
        assert_eq!(idle.since(s(7)), None);
        idle.complete_scrape(s(8), true);
        assert_eq!(idle.since(s(8)), Some(s(8)));
    }
}
