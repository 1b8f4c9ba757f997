//! ReportStream: whether one connection of an activator delivered every frame of a second.
//!
//! An activator numbers its frames, and pokes on their own, because pokes pass other frames. The
//! last frame of a second is its beat. A frame that is missing, malformed or in part unknown makes
//! the second incomplete: a request that it reported would be missing.

use super::ActivatorReport;

/// The frames of one connection.
#[derive(Debug, Default)]
pub struct ReportStream {
    activator: Option<String>,
    /// The last number of a poke, and of another frame.
    last_poke: Option<u64>,
    last: Option<u64>,
    /// Whether a part of the present second is missing.
    is_damaged: bool,
}

/// What a frame shows of its activator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// All frames until now were received, and the second has not ended.
    Open,
    /// The second ended, and all of its frames were received.
    SecondReported,
    /// A part of the present second is missing.
    Damaged,
}

// === impl ReportStream ===

impl ReportStream {
    /// The name in the frames of this connection.
    pub fn activator(&self) -> Option<&str> {
        self.activator.as_deref()
    }

    /// Takes a decoded frame; `is_whole` is false if an item of it was not usable. Frames of
    /// version 0 have no number, and no second ends with one.
    pub fn frame(&mut self, report: &ActivatorReport, is_whole: bool) -> StreamState {
        if report.sequence == 0 {
            return StreamState::Open;
        }
        if self.activator.as_ref() != Some(&report.activator) {
            self.activator = Some(report.activator.clone());
        }
        let last = if report.is_poke { &mut self.last_poke } else { &mut self.last };
        let follows = last.is_none_or(|last| report.sequence == last.saturating_add(1));
        *last = Some(report.sequence);
        self.is_damaged |= !follows || !is_whole || report.skipped > 0;
        match (self.is_damaged, report.is_beat) {
            (true, true) => {
                self.is_damaged = false;
                StreamState::Damaged
            }
            (true, false) => StreamState::Damaged,
            (false, true) => StreamState::SecondReported,
            (false, false) => StreamState::Open,
        }
    }

    /// Takes a frame that could not be decoded.
    pub fn malformed(&mut self) {
        self.is_damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Damage = fn(&mut ReportStream);

    fn frame(sequence: u64, is_beat: bool) -> ActivatorReport {
        ActivatorReport { activator: "a".into(), sequence, is_beat, ..ActivatorReport::default() }
    }

    fn poke(sequence: u64) -> ActivatorReport {
        ActivatorReport { is_poke: true, ..frame(sequence, false) }
    }

    #[test]
    fn second_is_reported_when_its_last_frame_follows_all_others() {
        let mut stream = ReportStream::default();
        assert_eq!(stream.frame(&frame(7, true), true), StreamState::SecondReported, "of any number");
        assert_eq!(stream.frame(&frame(8, false), true), StreamState::Open);
        assert_eq!(stream.frame(&poke(3), true), StreamState::Open);
        assert_eq!(stream.frame(&poke(4), true), StreamState::Open, "pokes pass other frames");
        assert_eq!(stream.frame(&frame(9, true), true), StreamState::SecondReported);
        assert_eq!(stream.activator(), Some("a"));
        assert_eq!(stream.frame(&frame(0, true), true), StreamState::Open, "of version 0");
    }

    #[test]
    fn missing_or_unusable_part_makes_one_second_incomplete() {
        let cases: [(&str, Damage); 5] = [
            ("a gap", |stream| {
                stream.frame(&frame(3, false), true);
            }),
            ("a gap of pokes", |stream| {
                stream.frame(&poke(9), true);
            }),
            ("an implausible stat", |stream| {
                stream.frame(&frame(2, false), false);
            }),
            ("an unknown item", |stream| {
                stream.frame(&ActivatorReport { skipped: 1, ..frame(2, false) }, true);
            }),
            ("a malformed frame", ReportStream::malformed),
        ];
        for (what, damage) in cases {
            let mut stream = ReportStream::default();
            stream.frame(&frame(1, true), true);
            stream.frame(&poke(7), true);
            damage(&mut stream);
            let next = stream.last.unwrap_or_default() + 1;
            assert_eq!(stream.frame(&frame(next, true), true), StreamState::Damaged, "{what}");
            assert_eq!(stream.frame(&frame(next + 1, true), true), StreamState::SecondReported, "{what}");
        }
    }
}
