//! QueryTimes: how often the metric of one workload is queried.
//!
//! The HPA controller of Kubernetes reads the metric of an HPA whenever it syncs it: each 15 s, or
//! later if there are more HPAs than its client may read in that time. So the interval between two
//! queries is the time in which an HPA follows its metric. At zero it does not query, so an
//! interval with a time at zero in it does not count.

/// Two queries that are nearer belong to one sync, of an HPA with two of the metrics.
const ONE_SYNC_MS: i64 = 1000;

/// The queries of one workload's metric, in Unix milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueryTimes {
    last: Option<i64>,
    interval: Option<i64>,
    before: Option<i64>,
}

// === impl QueryTimes ===

impl QueryTimes {
    /// Adds a query. Returns the milliseconds since the one before, if they count.
    pub(super) fn queried(&mut self, at: i64) -> Option<i64> {
        let interval = self.last.map(|last| at.saturating_sub(last));
        if interval.is_some_and(|interval| interval < ONE_SYNC_MS) {
            return None;
        }
        self.last = Some(at);
        (self.before, self.interval) = (self.interval, interval);
        interval
    }

    /// The milliseconds between the last two queries, or between the two before if they were
    /// nearer: one late sync is no slow HPA.
    pub(super) fn interval(&self) -> Option<i64> {
        self.interval.map(|interval| interval.min(self.before.unwrap_or(interval)))
    }

    /// Begins anew, because the workload has no pods.
    pub(super) fn at_zero(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_that_of_two_syncs_without_a_time_at_zero() {
        let mut queries = QueryTimes::default();
        assert_eq!((queries.queried(1_000), queries.interval()), (None, None));
        assert_eq!((queries.queried(52_000), queries.interval()), (Some(51_000), Some(51_000)));
        assert_eq!((queries.queried(52_010), queries.interval()), (None, Some(51_000)), "the same sync");
        assert_eq!((queries.queried(67_000), queries.interval()), (Some(15_000), Some(15_000)));
        assert_eq!(
            (queries.queried(127_000), queries.interval()),
            (Some(60_000), Some(15_000)),
            "one is late"
        );
        assert_eq!((queries.queried(180_000), queries.interval()), (Some(53_000), Some(53_000)));
        queries.at_zero();
        assert_eq!((queries.queried(900_000), queries.interval()), (None, None), "it slept in between");
        assert_eq!(queries.queried(915_000), Some(15_000));
    }
}
