//! The settings of the workload, and which of the programs' rules are in force.

use std::time::{Duration, Instant};

use autoscaler::settings::{AutoscalerConfig, Settings};
use autoscaler::stats::CarriedWorkloads;
use autoscaler::stats::reporters::{BEAT, DRAIN, PublishedWorkloads, Reporters};

use super::state::{PERIOD_MS, Silence};

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) settings: Settings,
    /// Whether a period has to be over by the monotonic clock too.
    pub(super) both_clocks: bool,
    /// What a receiver of reports concludes from each [`Silence`] of activator B.
    conclusions: [Conclusion; 4],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Conclusion {
    pub(super) is_complete: bool,
    pub(super) leaves_endpoints: bool,
}

// === impl Rules ===

impl Rules {
    /// Those of the programs. The stable window and grace last as long as ages are counted.
    pub(super) fn new(start: Instant) -> Self {
        let mut config = AutoscalerConfig::default();
        let period = Duration::from_millis(PERIOD_MS.unsigned_abs());
        config.defaults.window.stable = period;
        config.defaults.zero.grace_period = period;
        let (settings, _) = Settings::resolve(&config, &Default::default());
        let silences = [Silence::None, Silence::Short, Silence::Drain, Silence::TwoDrains];
        let conclusions = silences.map(|silence| conclude(silence, start));
        Self { settings, both_clocks: true, conclusions }
    }

    /// Before activators had a heartbeat, silence meant no requests.
    pub(super) fn without_heartbeat(self) -> Self {
        Self { conclusions: [Conclusion { is_complete: true, leaves_endpoints: false }; 4], ..self }
    }

    pub(super) fn with_wall_clock_alone(self) -> Self {
        Self { both_clocks: false, ..self }
    }

    pub(super) fn of(&self, silence: Silence) -> Conclusion {
        let [none, short, drain, two_drains] = self.conclusions;
        match silence {
            Silence::None => none,
            Silence::Short => short,
            Silence::Drain => drain,
            Silence::TwoDrains => two_drains,
        }
    }
}

fn conclude(silence: Silence, start: Instant) -> Conclusion {
    let silent = match silence {
        Silence::None => Duration::ZERO,
        Silence::Short => 3 * BEAT,
        Silence::Drain => DRAIN + 3 * BEAT,
        Silence::TwoDrains => 2 * DRAIN + 3 * BEAT,
    };
    let now = start + 4 * DRAIN;
    let mut reporters = Reporters::default();
    reporters.list(["a", "b"].map(|name| (name.to_owned(), true)), start);
    // The Leases were listed; the workloads that a silent activator publishes are not modelled.
    reporters.publish(PublishedWorkloads::default(), start);
    let mut at = start;
    while at <= now {
        reporters.reported("a", CarriedWorkloads::none(), at);
        if at + silent <= now {
            reporters.reported("b", CarriedWorkloads::none(), at);
        }
        at += BEAT;
    }
    let leaves_endpoints = reporters.cut_off(now).count() > 0;
    Conclusion { is_complete: reporters.are_complete(now), leaves_endpoints }
}
