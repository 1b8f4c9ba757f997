//! The setting `schedule`: a smallest size by time, such as
//! `Mon-Fri 07:30-19:00 Europe/Berlin: 2; Sat 10:00-14:00: 1`.
//!
//! The metrics-adapter raises the metric of an HPA to it, and the zero-scaler wakes a workload for
//! it and keeps it above zero. Both evaluate the text at an instant that they pass in. Rules of
//! time zones are bundled with the binaries, so all replicas have the same.
//!
//! Of windows that overlap, the first one of the text counts, so an exception is written before the
//! rule. Outside of all windows there is no scheduled minimum.

mod days;
mod window;

use std::sync::Arc;

use jiff::Timestamp;

use window::ScheduleWindow;

use crate::settings::formats::not_shown;
use crate::settings::setting::Format;

/// Longest text, in bytes.
const MAX_BYTES: usize = 1024;
/// Most windows: each is compared with the time whenever the metric is read.
const MAX_WINDOWS: usize = 16;

/// A smallest size by time.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    windows: Arc<[ScheduleWindow]>,
}

/// The minimum of a schedule from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleChange {
    /// Unix milliseconds.
    pub at: i64,
    /// Smallest size; 0 means no bound.
    pub minimum: u32,
}

/// What a schedule requires at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledMinimum {
    /// Smallest size; 0 means no bound.
    pub minimum: u32,
    /// When that changes; `None` if it never does.
    pub next: Option<ScheduleChange>,
}

// === impl Schedule ===

impl Schedule {
    pub(crate) const FORMAT: Format<Option<Self>> = Format {
        words: "windows with a smallest size each, separated by semicolons, such as `Mon-Fri 07:30-19:00 \
                Europe/Berlin: 2; Sat 10:00-14:00: 1` (at most 16, with time zones of the IANA database)",
        parse: |text| Self::parse(text).map(Some),
        print: not_shown,
    };

    /// Parses the text form: windows, separated by semicolons.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let windows = text.strip_suffix(';').unwrap_or(text).split(';').map(ScheduleWindow::parse);
        let windows = windows.take(MAX_WINDOWS + 1).collect::<Option<Vec<_>>>()?;
        let is_bounded = text.len() <= MAX_BYTES && windows.len() <= MAX_WINDOWS;
        is_bounded.then(|| Self { windows: windows.into() })
    }

    /// Smallest size at `now`, in Unix milliseconds; 0 means no bound.
    pub fn minimum(&self, now: i64) -> u32 {
        Timestamp::from_millisecond(now).map_or(0, |now| self.minimum_at(now))
    }

    /// The next change of the minimum after `now`, in Unix milliseconds; `None` if it stays the
    /// same for the next week, and so for good.
    pub fn next_change(&self, now: i64) -> Option<ScheduleChange> {
        let now = Timestamp::from_millisecond(now).ok()?;
        let current = self.minimum_at(now);
        let mut bounds: Vec<Timestamp> =
            self.windows.iter().flat_map(|window| window.bounds_after(now)).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let changes = bounds.into_iter().map(|at| (at, self.minimum_at(at)));
        let (at, minimum) = changes.into_iter().find(|(_, minimum)| *minimum != current)?;
        Some(ScheduleChange { at: at.as_millisecond(), minimum })
    }

    /// The minimum at `now`, in Unix milliseconds, and its next change.
    pub fn at(&self, now: i64) -> ScheduledMinimum {
        ScheduledMinimum { minimum: self.minimum(now), next: self.next_change(now) }
    }

    /// The same schedule with no minimum above `max`; 0 means no bound.
    #[must_use]
    pub fn at_most(&self, max: u32) -> Self {
        if max == 0 {
            return self.clone();
        }
        Self { windows: self.windows.iter().map(|window| window.at_most(max)).collect() }
    }

    fn minimum_at(&self, now: Timestamp) -> u32 {
        self.windows.iter().find(|window| window.contains(now)).map_or(0, ScheduleWindow::minimum)
    }
}

#[cfg(test)]
mod tests;
