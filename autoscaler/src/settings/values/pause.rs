//! Pause: whether a workload keeps its size, and until when.
//!
//! While a pause is in force, Rouse writes no size, and the metric has the value at which an HPA
//! keeps its size. The end is an instant and not a duration, so that it holds after restarts and
//! needs no further write.

use std::fmt;

use jiff::Timestamp;

use crate::settings::formats::BOOLEAN;
use crate::settings::setting::Format;

/// Whether a workload keeps its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// It is scaled.
    #[default]
    Off,
    /// It keeps its size until the setting changes.
    On,
    /// It keeps its size until this instant, in Unix milliseconds.
    Until(i64),
}

// === impl Pause ===

impl Pause {
    pub(crate) const FORMAT: Format<Self> = Format {
        words: "true, false, or the end of the pause in RFC 3339, such as 2026-12-01T08:00:00Z",
        parse: Self::parse,
        print: |pause| (*pause == Self::Off).then(|| false.to_string()),
    };

    /// Parses the annotation's value.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match (BOOLEAN.parse)(text) {
            Some(true) => Some(Self::On),
            Some(false) => Some(Self::Off),
            None => text.parse().ok().map(|end: Timestamp| Self::Until(end.as_millisecond())),
        }
    }

    /// Whether the workload keeps its size at `now`, in Unix milliseconds.
    pub fn is_in_force(self, now: i64) -> bool {
        match self {
            Self::Off => false,
            Self::On => true,
            Self::Until(end) => now < end,
        }
    }

    /// Its end, in Unix milliseconds, if it has one, also after it.
    pub fn end(self) -> Option<i64> {
        match self {
            Self::Off | Self::On => None,
            Self::Until(end) => Some(end),
        }
    }
}

impl fmt::Display for Pause {
    /// The text of a setting with this value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("false"),
            Self::On => f.write_str("true"),
            Self::Until(end) => Timestamp::from_millisecond(*end).unwrap_or_default().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_ends_at_its_instant_in_any_offset() {
        let end = 1_796_112_000_000;
        for text in ["2026-12-01T08:00:00Z", "2026-12-01T09:00:00+01:00"] {
            assert_eq!(Pause::parse(text), Some(Pause::Until(end)), "{text}");
        }
        let pause = Pause::Until(end);
        assert_eq!((pause.is_in_force(end - 1), pause.is_in_force(end)), (true, false));
        assert_eq!(Pause::parse(&pause.to_string()), Some(pause));
        assert_eq!((Pause::parse("true"), Pause::parse("False")), (Some(Pause::On), Some(Pause::Off)));
        assert!(Pause::On.is_in_force(i64::MAX) && !Pause::Off.is_in_force(0));
        for wrong in ["", "2h", "tomorrow", "2026-12-01", "2026-12-01T08:00:00", "2026-13-01T08:00:00Z"] {
            assert_eq!(Pause::parse(wrong), None, "{wrong:?}");
        }
    }
}
