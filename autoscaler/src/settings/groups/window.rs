//! Settings of the windows over which load is averaged, and of panics.

use std::time::Duration;

use crate::settings::formats::{HOUR, PERCENT, POSITIVE, duration, is_whole, number, shown, shown_duration};
use crate::settings::reader::SettingReader;
use crate::settings::setting::{Format, Setting, entry};
use crate::settings::values::aggregation::Aggregation;

const LENGTH: Format<Duration> = Format {
    words: "whole seconds from 6s to 1h",
    parse: |text| duration(text, |d| (Duration::from_secs(6)..=HOUR).contains(&d) && is_whole(d)),
    print: shown_duration,
};

const STABLE: Setting<Duration> = Setting {
    key: entry("stable-window", &LENGTH),
    annotation: entry("window", &LENGTH),
    default: Duration::from_secs(60),
    meaning: "Length of the stable window: the time over which load is averaged, and the time that a panic \
              lasts after the last burst.",
    when: "Set it to less to follow load and reach zero sooner, to more for steadier sizes.",
};

const PANIC_PERCENTAGE: Setting<f64> = Setting {
    key: entry("panic-window-percentage", &PERCENT),
    annotation: entry("panic-window-percentage", &PERCENT),
    default: 10.0,
    meaning: "Length of the panic window, in percent of the stable window; at least 1 s.",
    when: "Set it to more with a short window, so that a burst of a second or two starts no panic.",
};

const PANIC_THRESHOLD: Setting<f64> = Setting {
    key: entry("panic-threshold-percentage", &POSITIVE),
    annotation: entry(
        "panic-threshold-percentage",
        &Format {
            words: "110 to 1000",
            parse: |text| number(text, |p| (110.0..=1000.0).contains(&p)),
            print: shown,
        },
    ),
    default: 200.0,
    meaning: "Panic starts when the panic window needs this percentage of the ready pods; decisions do not \
              fall during a panic.",
    when: "Set it to less to react to smaller bursts, to 1000 to leave most of them to the HPA.",
};

const AGGREGATION: Setting<Aggregation> = Setting {
    key: None,
    annotation: entry("metric-aggregation-algorithm", &Aggregation::FORMAT),
    default: Aggregation::Linear,
    meaning: "Weighting of the seconds of a window: all the same, or more for newer seconds.",
    when: "Set it to weighted-exponential to follow a rising load sooner with a long window.",
};

/// The windows over which load is averaged.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSettings {
    pub stable: Duration,
    pub panic_percentage: f64,
    pub panic_threshold_percentage: f64,
    pub aggregation: Aggregation,
}

// === impl WindowSettings ===

impl WindowSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>, cluster: Option<&Self>) -> Self {
        let threshold = cluster.map(|it| it.panic_threshold_percentage);
        Self {
            stable: reader.read(&STABLE, cluster.map(|it| it.stable)),
            panic_percentage: reader.read(&PANIC_PERCENTAGE, cluster.map(|it| it.panic_percentage)),
            panic_threshold_percentage: reader.read(&PANIC_THRESHOLD, threshold),
            aggregation: reader.read(&AGGREGATION, None),
        }
    }

    /// Length of the panic window, rounded to whole seconds, at least 1 s.
    ///
    /// As in Knative, the length is truncated to whole nanoseconds before it is rounded to seconds.
    /// This changes results near half a second.
    pub fn panic(&self) -> Duration {
        let share = self.stable.as_nanos() as f64 * self.panic_percentage / 100.0;
        // `as` truncates and saturates.
        let truncated = Duration::from_nanos(share as u64);
        let half_a_second = u64::from(truncated.subsec_millis() >= 500);
        Duration::from_secs((truncated.as_secs() + half_a_second).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_window_is_rounded_as_in_knative() {
        // metric_test.go: (stable s, percent) -> panic s. The last three are not in it: the minimum
        // of one bucket; 20.5 s in seconds but one nanosecond less in nanoseconds; exactly half a
        // second.
        for (stable, percent, panic) in [
            (60, 10.0, 6),
            (10, 10.0, 1),
            (600, 10.0, 60),
            (60, 51.0, 31),
            (60, 50.0, 30),
            (6, 1.0, 1),
            (125, 16.4, 20),
            (25, 10.0, 3),
        ] {
            let settings = WindowSettings {
                stable: Duration::from_secs(stable),
                panic_percentage: percent,
                ..WindowSettings::read(&mut SettingReader::of_reference(), None)
            };
            assert_eq!(settings.panic(), Duration::from_secs(panic), "{stable} s, {percent} %");
        }
    }
}
