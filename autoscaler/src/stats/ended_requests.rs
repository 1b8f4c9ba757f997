//! Counts how requests end, and their time in the app against the latency objective.
//!
//! Input: one event for each request that the app received, from a
//! [`RequestProgress`](super::RequestProgress) in the queue-proxy or the activator. Output: an
//! [`AppStat`] once a second.
//!
//! The law: completions, errors and misses of all reports are the events of each kind, and the
//! seconds are the sum of their times to the nanosecond. Errors and misses together never exceed
//! the completions, because one request is at most one of the two.
//!
//! What surprises: a new objective takes effect at the end of a period, so that one objective holds
//! for all of a report.

use std::time::Duration;

use super::AppStat;

/// How a request ended that the app had received. Each counts as one completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// The app completed its response in this time. Also a request that the client cancelled before
    /// the response began: its response would have taken longer still. Without these, a pod would
    /// look the faster the more of its clients give up.
    Timed(Duration),
    /// The app failed after this time: status 5xx, the gRPC status of a failure in the server, or
    /// an incomplete response.
    Failed(Duration),
    /// The client left during the response, as clients of event streams do. The time is the
    /// client's choice, and is not counted.
    Untimed,
}

/// Counter of the ends of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndedRequests {
    objective: Option<Duration>,
    completions: u64,
    time: Duration,
    errors: u64,
    misses: u64,
}

// === impl EndedRequests ===

impl EndedRequests {
    /// A counter; its first period has this objective.
    pub fn new(objective: Option<Duration>) -> Self {
        Self { objective, ..Self::default() }
    }

    /// Counts one request.
    pub fn record(&mut self, end: RequestEnd) {
        self.completions += 1;
        match end {
            RequestEnd::Timed(time) => {
                self.time = self.time.saturating_add(time);
                self.misses += u64::from(self.objective.is_some_and(|objective| time > objective));
            }
            RequestEnd::Failed(time) => {
                self.time = self.time.saturating_add(time);
                self.errors += 1;
            }
            RequestEnd::Untimed => {}
        }
    }

    /// Ends a period of this length. The next period has the objective `next`.
    pub fn report(&mut self, period: Duration, next: Option<Duration>) -> AppStat {
        let ended = std::mem::replace(self, Self { objective: next, ..Self::default() });
        let seconds = period.as_secs_f64();
        let per_second = |sum: f64| if seconds > 0.0 { sum / seconds } else { 0.0 };
        AppStat {
            completions: per_second(ended.completions as f64),
            seconds: per_second(ended.time.as_secs_f64()),
            errors: per_second(ended.errors as f64),
            misses: per_second(ended.misses as f64),
            objective_micros: AppStat::objective_micros_of(ended.objective),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn only_time_above_the_objective_is_a_miss() {
        let mut ended = EndedRequests::default();
        ended.report(SECOND, Some(ms(200)));
        for end in [
            RequestEnd::Timed(ms(100)),
            RequestEnd::Timed(ms(200)),
            RequestEnd::Timed(ms(201)),
            RequestEnd::Failed(ms(499)),
            RequestEnd::Untimed,
        ] {
            ended.record(end);
        }
        let expected =
            AppStat { completions: 2.5, seconds: 0.5, errors: 0.5, misses: 0.5, objective_micros: 200_000 };
        assert_eq!(ended.report(2 * SECOND, None), expected);
        assert_eq!(ended.report(SECOND, None), AppStat::default(), "counts start anew");
    }

    #[test]
    fn objective_takes_effect_at_the_end_of_a_period() {
        let mut ended = EndedRequests::default();
        let mut report = |next| {
            ended.record(RequestEnd::Timed(ms(50)));
            let stat = ended.report(SECOND, next);
            (stat.misses, stat.objective_micros)
        };
        assert_eq!(report(Some(ms(10))), (0.0, 0));
        assert_eq!(report(Some(ms(90))), (1.0, 10_000));
        assert_eq!(report(None), (0.0, 90_000));
        assert_eq!(report(None), (0.0, 0));
    }

    #[test]
    fn empty_period_has_plausible_sums() {
        let mut ended = EndedRequests::default();
        ended.record(RequestEnd::Timed(Duration::MAX));
        ended.record(RequestEnd::Timed(Duration::MAX));
        assert_eq!(ended.report(Duration::ZERO, Some(Duration::MAX)), AppStat::default());
        assert_eq!(ended.report(SECOND, None).objective_micros, u64::MAX);
    }

    fn end() -> impl Strategy<Value = RequestEnd> {
        let time = || (0..10_000_000_000_u64).prop_map(Duration::from_nanos);
        prop_oneof![
            4 => time().prop_map(RequestEnd::Timed),
            1 => time().prop_map(RequestEnd::Failed),
            1 => Just(RequestEnd::Untimed),
        ]
    }

    /// One period: its objective and length in milliseconds, and the ends in it.
    type Period = (Option<u64>, u64, Vec<RequestEnd>);

    fn periods() -> impl Strategy<Value = Vec<Period>> {
        let ends = prop::collection::vec(end(), 0..50);
        prop::collection::vec((prop::option::of(1..10_000_u64), 1..2_000_u64, ends), 1..8)
    }

    fn expected(objective: Option<u64>, ends: &[RequestEnd]) -> [f64; 4] {
        let (mut seconds, mut errors, mut misses) = (Duration::ZERO, 0.0, 0.0);
        for end in ends {
            match *end {
                RequestEnd::Timed(time) if objective.is_some_and(|most| time > ms(most)) => {
                    misses += 1.0;
                    seconds += time;
                }
                RequestEnd::Timed(time) => seconds += time,
                RequestEnd::Failed(time) => {
                    errors += 1.0;
                    seconds += time;
                }
                RequestEnd::Untimed => {}
            }
        }
        [ends.len() as f64, seconds.as_secs_f64(), errors, misses]
    }

    proptest! {
        #[test]
        fn reports_add_up_to_the_events_of_each_period(periods in periods()) {
            let mut ended = EndedRequests::default();
            ended.report(SECOND, periods[0].0.map(ms));
            for (at, (objective, length, ends)) in periods.iter().enumerate() {
                ends.iter().for_each(|end| ended.record(*end));
                let next = periods.get(at + 1).and_then(|next| next.0);
                let stat = ended.report(ms(*length), next.map(ms));
                prop_assert_eq!(stat.objective_micros, objective.map_or(0, |ms| ms * 1000));
                prop_assert!(stat.is_plausible() && stat.errors + stat.misses <= stat.completions + 1e-9);
                let sums = [stat.completions, stat.seconds, stat.errors, stat.misses];
                for (rate, sum) in sums.into_iter().zip(expected(*objective, ends)) {
                    prop_assert!((rate * length_in_seconds(*length) - sum).abs() < 1e-6, "{stat:?}");
                }
            }
        }

        #[test]
        fn order_of_ends_does_not_matter(ends in prop::collection::vec(end(), 0..50)) {
            let report = |ends: &mut dyn Iterator<Item = &RequestEnd>| {
                let mut ended = EndedRequests::default();
                ended.report(SECOND, Some(ms(5_000)));
                ends.for_each(|end| ended.record(*end));
                ended.report(SECOND, None)
            };
            prop_assert_eq!(report(&mut ends.iter()), report(&mut ends.iter().rev()));
        }
    }

    fn length_in_seconds(ms: u64) -> f64 {
        Duration::from_millis(ms).as_secs_f64()
    }
}
