//! Settings of sizes, and of how fast they change.

use std::time::Duration;

use crate::settings::formats::{
    HOUR, SIZE, duration, is_whole, not_shown, number, shown, shown_duration, size,
};
use crate::settings::reader::{SettingError, SettingReader};
use crate::settings::setting::{Format, Setting, entry};
use crate::settings::values::pause::Pause;
use crate::settings::values::schedule::Schedule;

const RATE: Format<f64> = Format { words: "above 1", parse: |text| number(text, |v| v > 1.0), print: shown };

const MAX_UP_RATE: Setting<f64> = Setting {
    key: entry("max-scale-up-rate", &RATE),
    annotation: None,
    default: 1000.0,
    meaning: "Largest factor by which one decision may exceed the ready pods.",
    when: "Set it to less where many pods at once overload what they depend on.",
};

const MAX_DOWN_RATE: Setting<f64> = Setting {
    key: entry("max-scale-down-rate", &RATE),
    annotation: None,
    default: 2.0,
    meaning: "Largest divisor by which one decision may go below the ready pods.",
    when: "Set it to less where load returns soon after it fell.",
};

const DOWN_DELAY: Setting<Duration> = Setting {
    key: entry(
        "scale-down-delay",
        &Format {
            words: "whole seconds, 0s or longer",
            parse: |text| duration(text, is_whole),
            print: shown_duration,
        },
    ),
    annotation: entry(
        "scale-down-delay",
        &Format {
            words: "whole seconds from 0s to 1h",
            parse: |text| duration(text, |d| d <= HOUR && is_whole(d)),
            print: shown_duration,
        },
    ),
    default: Duration::ZERO,
    meaning: "How long a larger decision is held before a smaller one takes effect.",
    when: "Set it for a load that varies around a whole number of pods.",
};

/// The smallest size above zero.
pub(in crate::settings) const MIN: Setting<u32> = Setting {
    key: entry("min-scale", &SIZE),
    annotation: None,
    default: 0,
    meaning: "Smallest number of pods above zero, for PodAutoscalers without minReplicas; 0 means no bound.",
    when: "Set it where workloads without an HPA should have more than one pod.",
};

/// The largest size.
pub(in crate::settings) const MAX: Setting<u32> = Setting {
    key: entry("max-scale", &SIZE),
    annotation: None,
    default: 0,
    meaning: "Largest number of pods, for PodAutoscalers without maxReplicas; 0 means no bound.",
    when: "Set it to bound workloads without an HPA that name no maximum.",
};

const MAX_LIMIT: Setting<u32> = Setting {
    key: entry("max-scale-limit", &SIZE),
    annotation: None,
    default: 0,
    meaning: "Largest maxReplicas that a workload without an HPA may set; 0 means no limit. With a limit, max-scale must be set.",
    when: "Set it to bound what others may write.",
};

/// The size that a new workload must reach.
pub(in crate::settings) const INITIAL: Setting<u32> = Setting {
    key: entry("initial-scale", &SIZE),
    annotation: entry("initial-scale", &SIZE),
    default: 1,
    meaning: "Pods that a new workload must reach once before it is scaled down. With 0 \
              it may begin at zero.",
    when: "Set it where the first requests of a new workload need more than one pod.",
};

/// The smallest size under any load.
pub(in crate::settings) const ACTIVATION: Setting<u32> = Setting {
    key: None,
    annotation: entry(
        "activation-scale",
        &Format {
            words: "a whole number from 2 to 2147483647",
            parse: |text| size(text, 2),
            print: not_shown,
        },
    ),
    default: 1,
    meaning: "Smallest number of pods while there is any load. Default: 1.",
    when: "Set it where one pod cannot serve the first requests after a wake.",
};

/// The smallest size by time.
pub(crate) const SCHEDULE: Setting<Option<Schedule>> = Setting {
    key: None,
    annotation: entry("schedule", &Schedule::FORMAT),
    default: None,
    meaning: "Smallest size by time, such as `Mon-Fri 07:30-19:00 Europe/Berlin: 2; Sat 10:00-14:00: 1`. \
              While it is 1 or more, the workload is not scaled to zero, and is woken without a request.",
    when: "Set it where load comes at known times.",
};

/// Whether the workload keeps its size.
pub(crate) const PAUSED: Setting<Pause> = Setting {
    key: None,
    annotation: entry("paused", &Pause::FORMAT),
    default: Pause::Off,
    meaning: "Whether the workload keeps its size, also at zero, where requests then get 503 at once: no \
              request, schedule or panic changes it. A time is the end of the pause.",
    when: "Set it for maintenance, best by `kubectl rouse pause`.",
};

/// Sizes, and how fast they change.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleSettings {
    pub max_up_rate: f64,
    pub max_down_rate: f64,
    pub down_delay: Duration,
    /// Minimum replicas above zero; 0 means no bound. At most `max`, unless that is 0.
    pub min: u32,
    /// Maximum replicas; 0 means no bound.
    pub max: u32,
    pub initial: u32,
    /// Minimum replicas under any load; 1 by default, else between `min` and `max`.
    pub activation: u32,
    /// Smallest size by time, by the annotation. `spec.schedule` takes precedence. See
    /// [`Settings::schedule_in_force`](crate::settings::Settings::schedule_in_force).
    pub schedule: Option<Schedule>,
    /// `spec.paused` takes precedence.
    pub pause: Pause,
}

/// What workloads may set; for the whole cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleLimits {
    /// The largest maximum; 0 means no limit.
    pub max: u32,
}

// === impl ScaleSettings ===

impl ScaleSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>, cluster: Option<&Self>) -> Self {
        Self {
            max_up_rate: reader.read(&MAX_UP_RATE, cluster.map(|it| it.max_up_rate)),
            max_down_rate: reader.read(&MAX_DOWN_RATE, cluster.map(|it| it.max_down_rate)),
            down_delay: reader.read(&DOWN_DELAY, cluster.map(|it| it.down_delay)),
            min: reader.read(&MIN, cluster.map(|it| it.min)),
            max: reader.read(&MAX, cluster.map(|it| it.max)),
            initial: reader.read(&INITIAL, cluster.map(|it| it.initial)),
            activation: reader.read(&ACTIVATION, None),
            schedule: reader.read(&SCHEDULE, None),
            pause: reader.read(&PAUSED, None),
        }
    }
}

// === impl ScaleLimits ===

impl ScaleLimits {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>) -> Self {
        Self { max: reader.read(&MAX_LIMIT, None) }
    }

    /// Reports sizes of the cluster that conflict with these limits, or with each other. A size
    /// that failed to parse has its default here, which could cause a second, misleading error: it
    /// is skipped.
    pub(in crate::settings) fn check(&self, scale: &ScaleSettings, reader: &mut SettingReader<'_>) {
        let within_limit = self.max == 0 || (1..=self.max).contains(&scale.max);
        if !within_limit && !reader.has_error(&MAX) {
            let words = format!("from 1 to {}, which is {}", reader.name(&MAX_LIMIT), self.max);
            reader.push_error(SettingError::new(reader.name(&MAX), scale.max, words));
        }
        if scale.max > 0 && scale.min > scale.max {
            let words = format!("at most {}, which is {}", reader.name(&MAX), scale.max);
            reader.push_error(SettingError::new(reader.name(&MIN), scale.min, words));
        }
    }
}
