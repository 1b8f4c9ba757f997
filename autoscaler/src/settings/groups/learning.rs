//! Settings of the learned concurrency target.

use crate::settings::formats::{number, shown};
use crate::settings::reader::SettingReader;
use crate::settings::setting::{Format, Setting, entry};
use crate::settings::values::latency_objective::LatencyObjective;
use crate::settings::values::learn_target::LearnTarget;

/// Largest factor between the user's target and the learned one.
pub const MOST_LEARNING_FACTOR: f64 = 16.0;
pub const LEARNING_FACTOR_DEFAULT: f64 = 4.0;

const MODE: Setting<LearnTarget> = Setting {
    key: entry("learn-target", &LearnTarget::FORMAT),
    annotation: entry("learn-target", &LearnTarget::FORMAT),
    default: LearnTarget::Auto,
    meaning: "What happens with the learned concurrency target: none is learned, it is reported in the \
              status, or it is in force. Auto: in force where no target is named, else reported.",
    when: "Set it to Apply where you have not measured the target that you named.",
};

const OBJECTIVE: Setting<Option<LatencyObjective>> = Setting {
    key: None,
    annotation: entry("latency-objective", &LatencyObjective::FORMAT),
    default: None,
    meaning: "Time in the app that this percentile of the requests may take. The learned target keeps it; \
              without an objective it is the load above which requests wait for each other.",
    when: "Set it where a latency is promised.",
};

const FACTOR_FORMAT: Format<f64> = Format {
    words: "1 to 16",
    parse: |text| number(text, |factor| (1.0..=MOST_LEARNING_FACTOR).contains(&factor)),
    print: shown,
};

const FACTOR: Setting<f64> = Setting {
    key: entry("learn-target-factor", &FACTOR_FORMAT),
    annotation: entry("learn-target-factor", &FACTOR_FORMAT),
    default: LEARNING_FACTOR_DEFAULT,
    meaning: "The learned target is at least the user's divided by this factor, and at most the user's times \
              this factor.",
    when: "Set it to less to keep the learned target near yours.",
};

/// The learned concurrency target.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningSettings {
    /// What happens with the learned target.
    pub mode: LearnTarget,
    /// The latency objective that the learned target keeps; without one the target is at the knee
    /// of the load curve.
    pub objective: Option<LatencyObjective>,
    /// Largest factor between the user's target and the learned one, either way. 1 to 16.
    pub factor: f64,
}

// === impl LearningSettings ===

impl LearningSettings {
    pub(in crate::settings) fn read(reader: &mut SettingReader<'_>, cluster: Option<&Self>) -> Self {
        Self {
            mode: reader.read(&MODE, cluster.map(|it| it.mode)),
            objective: reader.read(&OBJECTIVE, None),
            factor: reader.read(&FACTOR, cluster.map(|it| it.factor)),
        }
    }
}
