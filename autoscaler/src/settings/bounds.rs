//! The bounds of settings, each with the words that say it. One that a cluster's key and an annotation share stands here once.
//!
//! The numbers are Knative's (`pkg/autoscaler/config/config.go`, `pkg/apis/autoscaling/annotation_validation.go`), with two
//! exceptions, each for a value that can mean nothing: `panic-threshold-percentage` of the cluster must be above 0, and
//! `container-concurrency-target-default` as well.

use std::time::Duration;

/// What is accepted of a setting.
pub(crate) struct Bound<T> {
    /// How it is said: "must be ...".
    pub(crate) words: &'static str,
    /// Whether a value is accepted.
    pub(crate) accepts: fn(T) -> bool,
}

/// A switch.
pub(crate) const BOOLEAN: &str = "true or false";
/// A weighting of windows.
pub(crate) const AGGREGATION: &str = "linear or weighted-exponential";
/// A metric. Knative's spelling `rps` is accepted too.
pub(crate) const METRIC: &str = "concurrency or requests-per-second";
/// Whether requests arrive.
pub(crate) const REACHABILITY: &str = "Reachable or Unreachable";
/// A class of autoscalers.
pub(crate) const CLASS: &str =
    "kpa.autoscaling.knative.dev or hpa.autoscaling.knative.dev, or not of knative.dev";
/// Whether bodies flow both ways at once.
pub(crate) const FULL_DUPLEX: &str = "Enabled or Disabled";

const HOUR: Duration = Duration::from_secs(3600);

/// A stable window.
pub(crate) const WINDOW: Bound<Duration> = Bound {
    words: "whole seconds from 6s to 1h",
    accepts: |d| (Duration::from_secs(6)..=HOUR).contains(&d) && is_whole(d),
};
/// The cluster's scale-down delay.
pub(crate) const WHOLE_SECONDS: Bound<Duration> =
    Bound { words: "whole seconds, 0s or longer", accepts: is_whole };
/// A workload's scale-down delay.
pub(crate) const WHOLE_SECONDS_OF_AN_HOUR: Bound<Duration> =
    Bound { words: "whole seconds from 0s to 1h", accepts: |d| d <= HOUR && is_whole(d) };
/// A workload's retention period.
pub(crate) const WITHIN_AN_HOUR: Bound<Duration> = Bound { words: "0s to 1h", accepts: |d| d <= HOUR };
/// The cluster's retention period.
pub(crate) const NOT_NEGATIVE: Bound<Duration> = Bound { words: "0s or longer", accepts: |_| true };
/// The grace period.
pub(crate) const LONGER_THAN_NOTHING: Bound<Duration> =
    Bound { words: "longer than 0s", accepts: |d| !d.is_zero() };
/// How long a request may wait.
pub(crate) const WAKE_TIMEOUT: Bound<Duration> = Bound {
    words: "whole seconds from 1s to 1h",
    accepts: |d| (Duration::from_secs(1)..=HOUR).contains(&d) && is_whole(d),
};
/// A progress deadline.
pub(crate) const DEADLINE: Bound<Duration> =
    Bound { words: "whole seconds, longer than 0s", accepts: |d| !d.is_zero() && is_whole(d) };

/// A share, in percent.
pub(crate) const PERCENT: Bound<f64> = Bound { words: "1 to 100", accepts: |p| (1.0..=100.0).contains(&p) };
/// A share, in percent or as a fraction.
pub(crate) const PERCENT_OR_FRACTION: Bound<f64> =
    Bound { words: "above 0, at most 100", accepts: |p| p > 0.0 && p <= 100.0 };
/// A workload's panic threshold.
pub(crate) const PANIC_THRESHOLD: Bound<f64> =
    Bound { words: "110 to 1000", accepts: |p| (110.0..=1000.0).contains(&p) };
/// Anything positive.
pub(crate) const POSITIVE: Bound<f64> = Bound { words: "above 0", accepts: |v| v > 0.0 };
/// A rate of change.
pub(crate) const RATE: Bound<f64> = Bound { words: "above 1", accepts: |v| v > 1.0 };
/// A burst capacity.
pub(crate) const BURST_CAPACITY: Bound<f64> =
    Bound { words: "0 or more, or -1", accepts: |v| v >= 0.0 || v == -1.0 };
/// An activator's capacity.
pub(crate) const ONE_OR_MORE: Bound<f64> = Bound { words: "1 or more", accepts: |v| v >= 1.0 };
/// What one pod should carry.
pub(crate) const TARGET: Bound<f64> = Bound { words: "0.01 or more", accepts: |v| v >= LEAST_TARGET };

/// A number of pods.
pub(crate) const SIZE: Bound<u32> = Bound { words: "a whole number from 0 to 2147483647", accepts: is_size };
/// A number of pods to wake to.
pub(crate) const ACTIVATION_SCALE: Bound<u32> =
    Bound { words: "a whole number from 2 to 2147483647", accepts: |n| n >= 2 && is_size(n) };

/// Requests that may wait.
pub(crate) const QUEUE_DEPTH: Bound<u32> =
    Bound { words: "a whole number from 1 to 2147483647", accepts: |n| n >= 1 && is_size(n) };

/// The least that one pod may be asked to carry.
pub(crate) const LEAST_TARGET: f64 = 0.01;

fn is_whole(duration: Duration) -> bool {
    duration.subsec_nanos() == 0
}

/// Whether a replica count can hold it.
fn is_size(pods: u32) -> bool {
    i32::try_from(pods).is_ok()
}
