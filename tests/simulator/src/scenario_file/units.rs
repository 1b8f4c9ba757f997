//! Texts of a scenario file with a unit: durations, bytes, objectives.

use std::time::Duration;

use autoscaler::contract::quantity::parse_milli;
use autoscaler::settings::parse_duration;
use serde::{Deserialize, Deserializer, de};

/// A duration such as `100ms` or `2h`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DurationText(pub Duration);

/// An amount of memory such as `256Mi`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bytes(pub u64);

/// A latency objective such as `300ms@p95`: this share of requests is at least as fast as this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The longest latency that meets it.
    pub latency: Duration,
    /// Share of requests, above 0 and below 1.
    pub share: f64,
}

// === impl DurationText ===

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(|error| de::Error::custom(format!("{text:?} {error}")))
    }
}

// === impl Bytes ===

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let milli = parse_milli(&text).map_err(de::Error::custom)?;
        u64::try_from(milli / 1000).map(Self).map_err(|_| de::Error::custom(format!("{text:?} is negative")))
    }
}

// === impl Objective ===

impl Objective {
    fn parse(text: &str) -> Option<Self> {
        let (latency, percentile) = text.split_once("@p")?;
        let latency = parse_duration(latency).ok()?;
        let percentile: f64 = percentile.parse().ok()?;
        let valid = latency > Duration::ZERO && percentile > 0.0 && percentile < 100.0;
        valid.then_some(Self { latency, share: percentile / 100.0 })
    }
}

impl<'de> Deserialize<'de> for Objective {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| de::Error::custom(format!("{text:?} is not an objective such as 300ms@p95")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objective_has_a_latency_and_a_percentile() {
        let objective = Objective::parse("300ms@p95").unwrap();
        assert_eq!(objective.latency, Duration::from_millis(300));
        assert!((objective.share - 0.95).abs() < 1e-12);
        assert!((Objective::parse("1s@p99.9").unwrap().share - 0.999).abs() < 1e-12);
        for invalid in ["300ms", "300ms@95", "@p95", "0s@p95", "300ms@p0", "300ms@p100", "300ms@pNaN"] {
            assert_eq!(Objective::parse(invalid), None, "{invalid}");
        }
    }
}
