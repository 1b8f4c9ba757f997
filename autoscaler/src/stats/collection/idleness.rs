//! Idleness: since when every reporter of a workload was heard, and none had a request.
//!
//! The one word on which a workload may be put to zero. An average will not do: 0 over a young or gappy window says nothing.
//! So this starts with the first complete round that saw nothing at all (proxied requests included), and anything else ends
//! it: a request anywhere, a pod that did not answer, an activator that went silent, a round that did not take place.

use std::time::Duration;

/// Rounds are a second apart; one that is later than this left something unheard.
const MAX_GAP: Duration = Duration::from_millis(3500);
/// An activator that carries requests says so every second. After this long without such word it carries none.
const ACTIVATOR_SILENCE: Duration = Duration::from_millis(2500);

/// Since when a workload is idle, by all that is heard of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idleness {
    since: Option<Duration>,
    /// The last round in which all pods were heard.
    last_scrape: Option<Duration>,
    /// When an activator last had a request, or when one was last lost from sight.
    last_activator: Option<Duration>,
}

// === impl Idleness ===

impl Idleness {
    /// All (sampled) ready pods answered, and whether none had a request. Without ready pods this holds as well: there is
    /// nothing to hear from pods then.
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

    /// Not every pod answered.
    pub fn incomplete_scrape(&mut self) {
        self.since = None;
        self.last_scrape = None;
    }

    /// An activator has a request, or is no longer heard.
    pub fn activator(&mut self, now: Duration) {
        self.since = None;
        self.last_activator = Some(self.last_activator.map_or(now, |last| last.max(now)));
    }

    /// Since when the workload is idle; `None` if it is not, or if that is not known at `now`.
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
    fn starts_with_the_first_complete_idle_round() {
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
        assert_eq!(gap.since(s(9)), None, "nothing was heard for 4 s");
        gap.complete_scrape(s(9), true);
        assert_eq!(gap.since(s(9)), Some(s(9)));
    }

    #[test]
    fn a_request_held_by_an_activator_counts_until_it_is_silent() {
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
