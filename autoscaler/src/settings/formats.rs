//! Text forms of values that several settings share.
//!
//! Values have Go's syntax, as in Knative. Bounds are Knative's (`pkg/autoscaler/config/config.go`,
//! `pkg/apis/autoscaling/annotation_validation.go`), with two exceptions: in the ConfigMap,
//! `panic-threshold-percentage` and `container-concurrency-target-default` must be above 0. Knative
//! accepts 0 and less, with which no scaling is possible.

use std::time::Duration;

use super::duration::parse_duration;
use super::setting::Format;

/// The longest duration of most annotations.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// A switch, with the spellings of Go.
pub(super) const BOOLEAN: Format<bool> = Format {
    words: "true or false",
    parse: |text| match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    },
    print: shown,
};
/// A percentage.
pub(super) const PERCENT: Format<f64> =
    Format { words: "1 to 100", parse: |text| number(text, |p| (1.0..=100.0).contains(&p)), print: shown };
/// A positive number.
pub(super) const POSITIVE: Format<f64> =
    Format { words: "above 0", parse: |text| number(text, |v| v > 0.0), print: shown };
/// A replica count.
pub(super) const SIZE: Format<u32> =
    Format { words: "a whole number from 0 to 2147483647", parse: |text| size(text, 0), print: shown };
/// A duration of at most an hour.
pub(super) const WITHIN_AN_HOUR: Format<Duration> =
    Format { words: "0s to 1h", parse: |text| duration(text, |d| d <= HOUR), print: shown_duration };

/// Parses a finite number.
pub(super) fn number(text: &str, accepts: fn(f64) -> bool) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite() && accepts(*v))
}

/// Parses a number that fits the type of a replica count, and is at least `least`.
pub(super) fn size(text: &str, least: u32) -> Option<u32> {
    text.parse().ok().filter(|n| *n >= least && i32::try_from(*n).is_ok())
}

/// Parses a duration.
pub(super) fn duration(text: &str, accepts: fn(Duration) -> bool) -> Option<Duration> {
    parse_duration(text).ok().filter(|d| accepts(*d))
}

/// Whether the duration is in whole seconds.
pub(super) fn is_whole(duration: Duration) -> bool {
    duration.subsec_nanos() == 0
}

/// Prints a default.
pub(super) fn shown<T: ToString>(default: &T) -> Option<String> {
    Some(default.to_string())
}

/// Prints a default in seconds.
pub(super) fn shown_duration(default: &Duration) -> Option<String> {
    Some(format!("{}s", default.as_secs_f64()))
}

/// For a default that other settings determine.
pub(super) fn not_shown<T>(_: &T) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_numbers_that_are_not_finite_or_out_of_bounds() {
        let float_of = |text: &str| number(text.trim(), |v| v >= 0.0 || v == -1.0);
        for (text, value) in [("0", 0.0), ("-1", -1.0), (" 7.5\n", 7.5), ("1e3", 1000.0), ("+.5", 0.5)] {
            assert_eq!(float_of(text), Some(value), "{text:?}");
        }
        for bad in
            ["", " ", "NaN", "inf", "-inf", "Infinity", "1e999", "-0.5", "1,5", "1 5", "0x10", "70%", "٣"]
        {
            assert_eq!(float_of(bad), None, "{bad:?}");
        }
        let integer_of = |text: &str| (SIZE.parse)(text.trim());
        for (text, value) in [("0", 0), ("+7", 7), (" 7 ", 7), ("2147483647", 2_147_483_647)] {
            assert_eq!(integer_of(text), Some(value), "{text:?}");
        }
        for bad in ["", "-1", "2147483648", "99999999999999999999", "1.0", "1e3", "0x1", "one"] {
            assert_eq!(integer_of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn booleans_accept_the_same_values_as_go() {
        let boolean = |text: &str| (BOOLEAN.parse)(text.trim());
        for yes in ["1", "t", "T", "true", "TRUE", "True", " true "] {
            assert_eq!(boolean(yes), Some(true), "{yes:?}");
        }
        for no in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(boolean(no), Some(false), "{no:?}");
        }
        for bad in ["", "yes", "on", "tRUE", "2"] {
            assert_eq!(boolean(bad), None, "{bad:?}");
        }
    }
}
