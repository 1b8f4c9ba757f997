//! Durations in Go's text form, which Knative's settings use: `90s`, `1m30s`, `1.5h`, `250ms`, `0`.
//!
//! Values are exact to the nanosecond; fractions of a nanosecond are truncated. The maximum is
//! Go's, about 292 years.

use std::time::Duration;

/// Maximum duration in Go, in nanoseconds.
const LONGEST: u64 = i64::MAX.unsigned_abs();
/// Decimals that are parsed; further ones are fractions of a nanosecond in any unit.
const DECIMALS: usize = 18;

/// A text that is not a duration of 0 or more.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("must be a duration such as 3s, 500ms or 1m30s")]
pub struct ParseDurationError;

/// Parses a duration in Go's text form. Also parses the flags of all programs.
///
/// # Errors
/// For negative durations and texts that Go rejects.
pub fn parse_duration(text: &str) -> Result<Duration, ParseDurationError> {
    nanoseconds(text).map(Duration::from_nanos).ok_or(ParseDurationError)
}

/// The duration in nanoseconds, unless it is negative or malformed.
fn nanoseconds(text: &str) -> Option<u64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let nanoseconds = if unsigned == "0" { 0 } else { sum(unsigned)? };
    (!negative || nanoseconds == 0).then_some(nanoseconds)
}

/// Sum of all parts, in nanoseconds.
fn sum(text: &str) -> Option<u64> {
    let (mut total, mut rest) = part(text)?;
    while !rest.is_empty() {
        let (nanoseconds, tail) = part(rest)?;
        total = total.checked_add(nanoseconds).filter(|total| *total <= LONGEST)?;
        rest = tail;
    }
    Some(total)
}

/// The first number with its unit, in nanoseconds, and the remaining text.
fn part(text: &str) -> Option<(u64, &str)> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, tail) = text.split_at(text.find(|c| !is_number(c))?);
    let (unit, tail) = tail.split_at(tail.find(is_number).unwrap_or(tail.len()));
    let unit = nanoseconds_in(unit)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && decimals.is_empty() {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let nanoseconds = digits(whole)?.checked_mul(unit)?.checked_add(share(unit, decimals)?)?;
    (nanoseconds <= LONGEST).then_some((nanoseconds, tail))
}

/// Value of the decimals of a unit, in nanoseconds.
fn share(unit: u64, decimals: &str) -> Option<u64> {
    if !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (read, _) = decimals.split_at(decimals.len().min(DECIMALS));
    let numerator = if read.is_empty() { 0 } else { read.parse::<u128>().ok()? };
    let denominator = 10u128.checked_pow(u32::try_from(read.len()).ok()?)?;
    u64::try_from(u128::from(unit).checked_mul(numerator)? / denominator).ok()
}

fn nanoseconds_in(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter mu; Go accepts both.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_durations_in_go_text_form() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("-0s", 0),
            ("60s", 60_000_000_000),
            ("+5s", 5_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1h15m30.918s", 4_530_918_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("500ms", 500_000_000),
            ("12us", 12_000),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("7ns", 7),
            ("1.9ns", 1),
            ("0.3333333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn rejects_negative_durations_and_text_that_go_rejects() {
        for bad in [
            "",
            "+",
            "-",
            "s",
            "60",
            "00",
            "-1s",
            "-1ns",
            "1d",
            "1 s",
            "1s ",
            " 1s",
            ".s",
            "..s",
            "1.2.3s",
            "1e3s",
            "1s2",
            "--1s",
            "1m-5s",
            "9223372036854775808ns",
            "2562048h",
            "99999999999999999999s",
            "1S",
            "\u{b5}s",
        ] {
            assert_eq!(parse_duration(bad), Err(ParseDurationError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC{0,24}") {
            let _ = parse_duration(&text);
        }

        #[test]
        fn accepted_durations_do_not_exceed_the_maximum_of_go(text in "[-+]?([0-9]{0,22}[.]?[0-9]{0,22}(h|m|s|ms|us|ns)){1,3}") {
            prop_assert!(parse_duration(&text).map_or(true, |d| d <= Duration::from_nanos(LONGEST)));
        }

        /// The text mixes units and has decimals.
        #[test]
        fn formatted_duration_parses_to_the_same_value(hours in 0u64..1000, minutes in 0u64..100, milliseconds in 0u64..1_000_000) {
            let text = format!("{hours}h{minutes}m{}.{:03}s", milliseconds / 1000, milliseconds % 1000);
            let expected = Duration::from_secs(hours * 3600 + minutes * 60) + Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&text), Ok(expected));
        }
    }
}
