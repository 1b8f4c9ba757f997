//! ReportStream: whether one connection of an activator delivered every frame of a second.
//!
//! An activator numbers its frames, and pokes on their own, because pokes pass other frames. The
//! last frame of a second is its beat. A frame that is missing, malformed or in part unknown makes
//! the second incomplete: a request that it reported would be missing.

use super::{ActivatorReport, CarriedWorkloads};

/// The frames of one connection.
#[derive(Debug, Default)]
pub struct ReportStream {
    activator: Option<String>,
    /// The last number of a poke, and of another frame.
    last_poke: Option<u64>,
    last: Option<u64>,
    /// Whether a part of the present second is missing.
    is_damaged: bool,
    /// The workloads that the frames of the present second report requests of.
    carried: CarriedWorkloads,
}

/// What a frame shows of its activator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// All frames until now were received, and the second has not ended.
    Open,
    /// The second ended, and all of its frames were received. They report requests of these
    /// workloads.
    SecondReported(CarriedWorkloads),
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
        let busy = report.messages.iter().filter(|message| message.stat.average_concurrent_requests > 0.0);
        self.carried.extend(busy.map(|message| message.key.clone()));
        if !report.is_beat {
            return if self.is_damaged { StreamState::Damaged } else { StreamState::Open };
        }
        let carried = std::mem::take(&mut self.carried);
        if std::mem::take(&mut self.is_damaged) {
            return StreamState::Damaged;
        }
        StreamState::SecondReported(carried)
    }

    /// Takes a frame that could not be decoded.
    pub fn malformed(&mut self) {
        self.is_damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Stat, StatMessage};
    use super::*;
    use crate::Key;

    const IDLE_SECOND: StreamState = StreamState::SecondReported(CarriedWorkloads::none());

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
        assert_eq!(stream.frame(&frame(7, true), true), IDLE_SECOND, "of any number");
        assert_eq!(stream.frame(&frame(8, false), true), StreamState::Open);
        assert_eq!(stream.frame(&poke(3), true), StreamState::Open);
        assert_eq!(stream.frame(&poke(4), true), StreamState::Open, "pokes pass other frames");
        assert_eq!(stream.frame(&frame(9, true), true), IDLE_SECOND);
        assert_eq!(stream.activator(), Some("a"));
        assert_eq!(stream.frame(&frame(0, true), true), StreamState::Open, "of version 0");
    }

    #[test]
    fn second_lists_the_workloads_with_requests_in_any_of_its_frames() {
        let busy = |frame: ActivatorReport, names: &[&str], requests: f64| {
            let stat = Stat { average_concurrent_requests: requests, ..Stat::default() };
            let message = |name: &&str| StatMessage { key: Key::new("shop", *name), stat: stat.clone() };
            ActivatorReport { messages: names.iter().map(message).collect(), ..frame }
        };
        let carried = |names: &[&str]| {
            let keys = names.iter().map(|name| Key::new("shop", *name));
            StreamState::SecondReported(CarriedWorkloads::new(keys))
        };
        let mut stream = ReportStream::default();
        stream.frame(&busy(poke(1), &["poked"], 1.0), true);
        stream.frame(&busy(frame(1, false), &["web"], 0.1), true);
        let last = busy(frame(2, true), &["web", "api"], 2.0);
        assert_eq!(stream.frame(&last, true), carried(&["api", "poked", "web"]));
        assert_eq!(stream.frame(&busy(frame(3, true), &["web"], 0.0), true), IDLE_SECOND, "it has ended");
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
            assert_eq!(stream.frame(&frame(next + 1, true), true), IDLE_SECOND, "{what}");
        }
    }
}
