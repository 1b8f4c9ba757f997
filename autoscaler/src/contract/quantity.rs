//! Kubernetes quantities as whole thousandths (milli-units).
//!
//! Input: `averageValue` of an HPA's target. Output: the `value` strings of the external metrics
//! API. The HPA rounds every quantity up to thousandths before it divides, so only this unit gives
//! the same results as the HPA.

/// Error for a text that is not a quantity, or that exceeds the range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a Kubernetes quantity below 9.2e15, such as \"70\", \"0.5\", \"1500m\" or \"1k\"")]
pub struct ParseQuantityError(String);

/// Thousandths in `text`, rounded up as the HPA does.
///
/// # Errors
/// If `text` is not a Kubernetes quantity, or exceeds the range of `i64`.
pub fn parse_milli(text: &str) -> Result<i64, ParseQuantityError> {
    let error = || ParseQuantityError(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let scale = suffix_scale(suffix).ok_or_else(error)?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return Err(error());
    }
    let scaled = scale.apply(whole, fraction, negative).ok_or_else(error)?;
    i64::try_from(scaled).map_err(|_| error())
}

/// The canonical text of a number of thousandths: an integer if possible, else with the suffix `m`.
pub fn format_milli(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// A float as thousandths, rounded up, saturating; `None` for NaN.
pub fn milli_from_f64(value: f64) -> Option<i64> {
    // `as` saturates at the bounds of i64, as the HPA's sum does.
    (!value.is_nan()).then(|| (value * 1000.0).ceil() as i64)
}

/// Value of a suffix in thousandths, as a fraction.
#[derive(Clone, Copy)]
struct Scale {
    numerator: i128,
    denominator: i128,
}

fn suffix_scale(suffix: &str) -> Option<Scale> {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let power = |base: i128, suffixes: [&str; 7]| {
        let power = suffixes.into_iter().position(|it| it == suffix)?;
        Some(Scale { numerator: base.checked_pow(u32::try_from(power).ok()?)? * 1000, denominator: 1 })
    };
    match suffix {
        "n" => Some(Scale { numerator: 1, denominator: 1_000_000 }),
        "u" => Some(Scale { numerator: 1, denominator: 1000 }),
        "m" => Some(Scale { numerator: 1, denominator: 1 }),
        _ => power(1000, DECIMAL).or_else(|| power(1024, BINARY)).or_else(|| exponent_scale(suffix)),
    }
}

/// Parses a decimal exponent, such as `e3` or `E-2`.
fn exponent_scale(suffix: &str) -> Option<Scale> {
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    if !(-18..=18).contains(&exponent) {
        return None;
    }
    let power = 10i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent >= 0 {
        Scale { numerator: power * 1000, denominator: 1 }
    } else {
        Scale { numerator: 1000, denominator: power }
    })
}

impl Scale {
    /// `whole.fraction` in thousandths, rounded towards positive infinity as Kubernetes does.
    fn apply(self, whole: &str, fraction: &str, negative: bool) -> Option<i128> {
        let fraction = fraction.trim_end_matches('0');
        // Kubernetes keeps nine decimals; truncated digits still round up.
        let (kept, cut) = fraction.split_at(fraction.len().min(9));
        let unit = 10i128.checked_pow(u32::try_from(kept.len()).ok()?)?;
        let parse = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<i128>().ok() };
        let digits = parse(whole)?.checked_mul(unit)?.checked_add(parse(kept)?)?;
        let numerator = digits.checked_mul(self.numerator)?;
        let denominator = unit.checked_mul(self.denominator)?;
        let inexact = numerator % denominator != 0 || !cut.is_empty();
        let floor = numerator / denominator;
        Some(match (negative, inexact) {
            (true, _) => -floor,
            (false, true) => floor + 1,
            (false, false) => floor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_all_forms_of_a_number_to_the_same_value() {
        for text in ["70", "70000m", "0.07k", "7e1", "70.0", "+70", "70.000"] {
            assert_eq!(parse_milli(text), Ok(70_000), "{text}");
        }
        assert_eq!(parse_milli("1Ki"), Ok(1_024_000));
        assert_eq!(parse_milli("-1500m"), Ok(-1500));
    }

    #[test]
    fn rounds_up_to_thousandths_like_the_hpa() {
        assert_eq!(parse_milli("0.0001"), Ok(1));
        assert_eq!(parse_milli("1.0001"), Ok(1001));
        assert_eq!(parse_milli("1u"), Ok(1));
        assert_eq!(milli_from_f64(0.000_01), Some(1));
        assert_eq!(milli_from_f64(f64::NAN), None);
    }

    #[test]
    fn rejects_text_that_is_not_a_quantity() {
        for bad in ["", "m", "1x", "1.2.3", "--1", "1 ", "e3", "1e99", "9223372036854775808", "Ki", "1-2"] {
            assert!(parse_milli(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn formats_without_decimals() {
        assert_eq!(format_milli(350_000), "350");
        assert_eq!(format_milli(1), "1m");
        assert_eq!(format_milli(0), "0");
    }
}
