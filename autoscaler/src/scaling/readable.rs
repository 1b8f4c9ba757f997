//! Times and numbers formatted for terminals: the tables and plots of `simulate`, and `/why`.

use std::fmt;

/// Seconds, as `h:mm:ss` with up to three decimals.
pub struct ClockTime(pub f64);

/// A number with at most two decimals, more if it is small. With a precision (`{:.2}`) it has
/// exactly that many, so that columns line up. Only zero is displayed as a bare 0.
pub struct CompactNumber(pub f64);

// === impl ClockTime ===

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `as` saturates, and times are at most 1e9 s.
        let millis = (self.0 * 1000.0).round() as u64;
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let mut text = if hours > 0 {
            format!("{hours}:{minutes:02}:{seconds:02}")
        } else {
            format!("{minutes}:{seconds:02}")
        };
        if millis > 0 {
            text.push_str(format!(".{millis:03}").trim_end_matches('0'));
        }
        f.pad(&text)
    }
}

// === impl CompactNumber ===

impl fmt::Display for CompactNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let text = match (value.abs(), f.precision()) {
            (0.0, _) => "0".to_owned(),
            (tiny, _) if tiny < 1e-4 => format!("{value:.1e}"),
            (huge, _) if huge >= 1e9 => format!("{value:.2e}"),
            (small, _) if small < 0.1 => format!("{value:.4}"),
            (_, Some(decimals)) => format!("{value:.decimals$}"),
            (_, None) => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        };
        // `pad` would cut the text at the precision.
        write!(f, "{text:>0$}", f.width().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_times_without_loss() {
        for (seconds, text) in
            [(0.0, "0:00"), (2.5, "0:02.5"), (61.001, "1:01.001"), (3600.0, "1:00:00"), (1e9, "277777:46:40")]
        {
            assert_eq!(ClockTime(seconds).to_string(), text);
        }
        assert_eq!(format!("{:>6}", ClockTime(2.0)), "  0:02");
    }

    #[test]
    fn formats_numbers_and_keeps_small_ones_nonzero() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (70.0, "70"),
            (235.757_333, "235.76"),
            (-3.25, "-3.25"),
            (0.012_34, "0.0123"),
            (2e-9, "2.0e-9"),
            (12.5, "12.5"),
            (100.0, "100"),
            (1e300, "1.00e300"),
        ] {
            assert_eq!(CompactNumber(value).to_string(), text);
        }
        let column = [0.0, 100.0, 7.125, 0.012_34].map(|value| format!("{:>8.2}", CompactNumber(value)));
        assert_eq!(column, ["       0", "  100.00", "    7.12", "  0.0123"]);
    }
}
