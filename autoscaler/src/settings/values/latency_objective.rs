//! The setting `latency-objective`: how long responses may take, such as `200ms@p95`.
//!
//! Its first part is a duration in Go's text form, its second one the percentile of the requests
//! that must not take longer.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::settings::duration::parse_duration;
use crate::settings::formats::not_shown;
use crate::settings::setting::Format;

/// Accepted thresholds.
const THRESHOLDS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);
/// Accepted percentiles.
const PERCENTILES: RangeInclusive<f64> = 50.0..=99.9;

/// The time within which a share of the requests must end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyObjective {
    /// The longest time in the app that keeps the objective. 1 ms to 1 h.
    pub threshold: Duration,
    /// The share of requests that must keep it. 0.5 to 0.999.
    pub quantile: f64,
}

// === impl LatencyObjective ===

impl LatencyObjective {
    pub(in crate::settings) const FORMAT: Format<Option<Self>> = Format {
        words: "a duration from 1ms to 1h with a percentile from p50 to p99.9, such as 200ms@p95",
        parse: |text| Self::parse(text).map(Some),
        print: not_shown,
    };

    /// Parses the annotation's value.
    pub(in crate::settings) fn parse(text: &str) -> Option<Self> {
        let (threshold, percentile) = text.split_once("@p")?;
        let threshold = parse_duration(threshold).ok().filter(|time| THRESHOLDS.contains(time))?;
        let is_decimal = percentile.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percentile: f64 = percentile.parse().ok().filter(|_| is_decimal)?;
        PERCENTILES.contains(&percentile).then_some(Self { threshold, quantile: percentile / 100.0 })
    }

    /// The share of requests that may miss the objective. Above 0, at most 0.5.
    pub fn miss_budget(&self) -> f64 {
        1.0 - self.quantile
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_threshold_and_percentile() {
        for (text, millis, quantile) in [
            ("200ms@p95", 200, 0.95),
            ("1ms@p50", 1, 0.5),
            ("1h@p99.9", 3_600_000, 0.999),
            ("1.5s@p99", 1500, 0.99),
            ("1m30s@p90.0", 90_000, 0.9),
        ] {
            let objective = LatencyObjective::parse(text).unwrap();
            assert_eq!(objective.threshold, Duration::from_millis(millis), "{text}");
            assert!((objective.quantile - quantile).abs() < 1e-12, "{text}");
            assert!((objective.miss_budget() - (1.0 - quantile)).abs() < 1e-12, "{text}");
        }
    }

    #[test]
    fn rejects_other_texts_and_values_out_of_bounds() {
        for bad in [
            "",
            "200ms",
            "p95",
            "@p95",
            "200ms@",
            "200ms@p",
            "200ms@95",
            "200ms @p95",
            "200ms@p95 ",
            "200@p95",
            "0s@p95",
            "999us@p95",
            "1h1ms@p95",
            "-1s@p95",
            "200ms@p49.9",
            "200ms@p99.91",
            "200ms@p100",
            "200ms@p+95",
            "200ms@p9.5e1",
            "200ms@pNaN",
            "200ms@p.",
            "200ms@p95@p99",
        ] {
            assert_eq!(LatencyObjective::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_an_objective_within_bounds_or_none(
            text in "([0-9]{0,6}[.]?[0-9]{0,3}(ms|s|m|h|)@p[0-9.]{0,6}|\\PC{0,16})",
        ) {
            if let Some(objective) = LatencyObjective::parse(&text) {
                prop_assert!(THRESHOLDS.contains(&objective.threshold));
                prop_assert!((0.5..0.9991).contains(&objective.quantile));
                prop_assert!(objective.miss_budget() > 0.0 && objective.miss_budget() <= 0.5);
            }
        }
    }
}
