//! Days: a set of weekdays, such as `Mon-Fri` or `Sat,Sun`.

use jiff::civil::Weekday;

/// In the order of a week that begins on Monday.
const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A set of weekdays; bit 0 is Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Days(u8);

// === impl Days ===

impl Days {
    pub(super) const ALL: Self = Self(0b111_1111);

    /// Parses days and ranges of days, separated by commas. A range may go over the end of a week.
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self(0), |all, range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (position(first)?, position(last)?);
            let length = (last + 7 - first) % 7;
            Some((0..=length).fold(all, |days, offset| Self(days.0 | 1 << ((first + offset) % 7))))
        })
    }

    pub(super) fn contain(self, day: Weekday) -> bool {
        self.0 & 1 << day.to_monday_zero_offset() != 0
    }
}

fn position(name: &str) -> Option<usize> {
    NAMES.iter().position(|day| *day == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_days_and_ranges() {
        for (text, days) in [
            ("Mon", 0b000_0001),
            ("Mon-Fri", 0b001_1111),
            ("Sat,Sun", 0b110_0000),
            ("Fri-Mon", 0b111_0001),
            ("Mon-Sun", 0b111_1111),
            ("Mon-Tue,Thu", 0b000_1011),
            ("Wed-Wed", 0b000_0100),
        ] {
            assert_eq!(Days::parse(text), Some(Days(days)), "{text}");
        }
        for bad in ["", "mon", "Monday", "Mon-", "-Mon", "Mon-Tue-Wed", "Mon,", "Mon, Tue", "1"] {
            assert_eq!(Days::parse(bad), None, "{bad:?}");
        }
        assert!(Days::ALL.contain(Weekday::Sunday) && !Days(1).contain(Weekday::Tuesday));
    }
}
