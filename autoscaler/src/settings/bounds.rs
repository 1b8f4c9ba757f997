//! Bounds of all settings, each with its description for error messages.
//!
//! The numbers are Knative's (`pkg/autoscaler/config/config.go`,
//! `pkg/apis/autoscaling/annotation_validation.go`), with two exceptions: of the ConfigMap,
//! `panic-threshold-percentage` and `container-concurrency-target-default` must be above 0.
//! Knative accepts 0 and less, with which no scaling is possible.

use std::time::Duration;

/// Accepted values of a setting.
pub(crate) struct Bound<T> {
    /// Description that completes the sentence "must be ...".
    pub(crate) words: &'static str,
    /// Whether a value is within the bound.
    pub(crate) accepts: fn(T) -> bool,
}

/// Bound of switches.
pub(crate) const BOOLEAN: &str = "true or false";
/// Bound of `metric-aggregation-algorithm`.
pub(crate) const AGGREGATION: &str = "linear or weighted-exponential";
/// Bound of `metric`. The alias `rps` of Knative is accepted as well.
pub(crate) const METRIC: &str = "concurrency, requests-per-second, or none on an HPA";
/// Bound of `reachability`.
pub(crate) const REACHABILITY: &str = "Reachable or Unreachable";
/// Bound of `learn-target`.
pub(crate) const LEARN_TARGET: &str = "Off, Recommend or Apply";
/// Bound of `latency-objective`.
pub(crate) const LATENCY_OBJECTIVE: &str =
    "a duration from 1ms to 1h with a percentile from p50 to p99.9, such as 200ms@p95";
/// Bound of `sidecar`.
pub(crate) const SIDECAR: &str = "\"true\" or \"false\"";
/// Bound of `selector`.
pub(crate) const SELECTOR: &str = "label=value pairs, separated by commas";
/// Bound of `no-wake`.
pub(crate) const NO_WAKE: &str = "rules, separated by commas, such as `GET /healthz`, `HEAD`, `/static/*` or \
    `User-Agent: *UptimeRobot*` (at most 32, and 1024 bytes)";
/// Bound of `no-wake-response`.
pub(crate) const NO_WAKE_RESPONSE: &str =
    "a status from 200 to 599, then a text of at most 256 bytes, which 204, 205 and 304 do not have";
/// Bound of `schedule`.
pub(crate) const SCHEDULE: &str = "windows with a smallest size each, separated by semicolons, such as `Mon-Fri \
    07:30-19:00 Europe/Berlin: 2; Sat 10:00-14:00: 1` (at most 16, with time zones of the IANA database)";

const HOUR: Duration = Duration::from_secs(3600);

/// Bound of the stable window.
pub(crate) const WINDOW: Bound<Duration> = Bound {
    words: "whole seconds from 6s to 1h",
    accepts: |d| (Duration::from_secs(6)..=HOUR).contains(&d) && is_whole(d),
};
/// Bound of the scale-down delay in the ConfigMap.
pub(crate) const WHOLE_SECONDS: Bound<Duration> =
    Bound { words: "whole seconds, 0s or longer", accepts: is_whole };
/// Bound of the scale-down delay of a workload.
pub(crate) const WHOLE_SECONDS_OF_AN_HOUR: Bound<Duration> =
    Bound { words: "whole seconds from 0s to 1h", accepts: |d| d <= HOUR && is_whole(d) };
/// Bound of the pod retention period of a workload, and of start patience.
pub(crate) const WITHIN_AN_HOUR: Bound<Duration> = Bound { words: "0s to 1h", accepts: |d| d <= HOUR };
/// Bound of the pod retention period in the ConfigMap.
pub(crate) const NOT_NEGATIVE: Bound<Duration> = Bound { words: "0s or longer", accepts: |_| true };
/// Bound of the scale-to-zero grace period.
pub(crate) const LONGER_THAN_NOTHING: Bound<Duration> =
    Bound { words: "longer than 0s", accepts: |d| !d.is_zero() };
/// Bound of the wake timeout.
pub(crate) const WAKE_TIMEOUT: Bound<Duration> = Bound {
    words: "whole seconds from 1s to 1h",
    accepts: |d| (Duration::from_secs(1)..=HOUR).contains(&d) && is_whole(d),
};
/// Bound of the timeouts of requests; 0 is none.
pub(crate) const REQUEST_TIMEOUT: Bound<Duration> = Bound {
    words: "whole milliseconds from 0s to 24h",
    accepts: |d| d <= 24 * HOUR && d.subsec_nanos().is_multiple_of(1_000_000),
};
/// Bound of the progress deadline.
pub(crate) const DEADLINE: Bound<Duration> =
    Bound { words: "whole seconds, longer than 0s", accepts: |d| !d.is_zero() && is_whole(d) };

/// Bound of percentages.
pub(crate) const PERCENT: Bound<f64> = Bound { words: "1 to 100", accepts: |p| (1.0..=100.0).contains(&p) };
/// Bound of percentages that may also be given as a fraction up to 1.
pub(crate) const PERCENT_OR_FRACTION: Bound<f64> =
    Bound { words: "above 0, at most 100", accepts: |p| p > 0.0 && p <= 100.0 };
/// Bound of the panic threshold of a workload, in percent.
pub(crate) const PANIC_THRESHOLD: Bound<f64> =
    Bound { words: "110 to 1000", accepts: |p| (110.0..=1000.0).contains(&p) };
/// Bound of positive numbers.
pub(crate) const POSITIVE: Bound<f64> = Bound { words: "above 0", accepts: |v| v > 0.0 };
/// Bound of scaling rates.
pub(crate) const RATE: Bound<f64> = Bound { words: "above 1", accepts: |v| v > 1.0 };
/// Bound of the target burst capacity.
pub(crate) const BURST_CAPACITY: Bound<f64> =
    Bound { words: "0 or more, or -1", accepts: |v| v >= 0.0 || v == -1.0 };
/// Bound of the capacity of an activator.
pub(crate) const ONE_OR_MORE: Bound<f64> = Bound { words: "1 or more", accepts: |v| v >= 1.0 };
/// Bound of the factor between the user's target and the learned one.
pub(crate) const LEARNING_FACTOR: Bound<f64> =
    Bound { words: "1 to 16", accepts: |factor| (1.0..=MOST_LEARNING_FACTOR).contains(&factor) };
/// Bound of the target per pod.
pub(crate) const TARGET: Bound<f64> = Bound { words: "0.01 or more", accepts: |v| v >= LEAST_TARGET };

/// Bound of replica counts.
pub(crate) const SIZE: Bound<u32> = Bound { words: "a whole number from 0 to 2147483647", accepts: is_size };
/// Bound of the activation scale.
pub(crate) const ACTIVATION_SCALE: Bound<u32> =
    Bound { words: "a whole number from 2 to 2147483647", accepts: |n| n >= 2 && is_size(n) };

/// Bound of the wake queue depth.
pub(crate) const QUEUE_DEPTH: Bound<u32> =
    Bound { words: "a whole number from 1 to 2147483647", accepts: |n| n >= 1 && is_size(n) };

/// Default factor between the user's target and the learned one.
pub const LEARNING_FACTOR_DEFAULT: f64 = 4.0;
/// Largest such factor.
pub const MOST_LEARNING_FACTOR: f64 = 16.0;
/// Smallest target per pod.
pub(crate) const LEAST_TARGET: f64 = 0.01;

fn is_whole(duration: Duration) -> bool {
    duration.subsec_nanos() == 0
}

/// Whether the number fits the type of a replica count.
fn is_size(pods: u32) -> bool {
    i32::try_from(pods).is_ok()
}
