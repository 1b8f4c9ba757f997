//! Durations as Go writes them, because that is how Knative's settings are written: `90s`, `1m30s`, `1.5h`, `250ms`, `0`.
//!
//! Read exactly, in whole nanoseconds; what is smaller is cut off. The longest is Go's own, some 292 years.

use std::time::Duration;

/// Longest duration that Go can hold, in nanoseconds.
const LONGEST: u64 = i64::MAX.unsigned_abs();
/// Decimals that are read; more would be parts of a nanosecond in any unit.
const DECIMALS: usize = 18;

/// A duration as Go writes it; `None` for what Go does not take, and for what is negative.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let nanoseconds = if unsigned == "0" { 0 } else { sum(unsigned)? };
    (!negative || nanoseconds == 0).then(|| Duration::from_nanos(nanoseconds))
}

/// Nanoseconds of all parts together.
fn sum(text: &str) -> Option<u64> {
    let (mut total, mut rest) = part(text)?;
    while !rest.is_empty() {
        let (nanoseconds, tail) = part(rest)?;
        total = total.checked_add(nanoseconds).filter(|total| *total <= LONGEST)?;
        rest = tail;
    }
    Some(total)
}

/// Nanoseconds of the first number with its unit, and what follows.
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

/// The part of a unit that decimals say.
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
        // The micro sign and the Greek letter look alike, and Go takes both.
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
    fn durations_read_as_go_writes_them() {
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
            assert_eq!(parse_duration(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn what_go_does_not_take_is_refused() {
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
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = parse_duration(&text);
        }

        #[test]
        fn texts_that_look_like_durations_are_read_or_refused(text in "[-+]?([0-9]{0,22}[.]?[0-9]{0,22}(h|m|s|ms|us|ns)){1,3}") {
            prop_assert!(parse_duration(&text).is_none_or(|d| d <= Duration::from_nanos(LONGEST)));
        }

        /// A duration in milliseconds, written in units that are mixed and have decimals, comes back as it was.
        #[test]
        fn what_is_written_is_read(hours in 0u64..1000, minutes in 0u64..100, milliseconds in 0u64..1_000_000) {
            let text = format!("{hours}h{minutes}m{}.{:03}s", milliseconds / 1000, milliseconds % 1000);
            let expected = Duration::from_secs(hours * 3600 + minutes * 60) + Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&text), Some(expected));
        }
    }
}
