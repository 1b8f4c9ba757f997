//! The spec of a trace and the bounds of its values.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::ReplayError;
use crate::contract::metric_name::MetricName;
use crate::scaling::decider::DeciderSpec;
use crate::settings::AutoscalerConfig;
use crate::settings::{Aggregation, BurstCapacity, Settings};
use crate::stats::collection::WindowSpec;

/// Longest window and delay, in seconds: a day, more than any cluster may set. Limits the
/// memory of a replay.
const DAY: u32 = 86_400;
const UP_TO_A_DAY: &str = "whole seconds from 1 to 86400";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Spec {
    pub(super) metric: MetricName,
    target: f64,
    total_target: f64,
    /// By size without a number.
    target_burst_capacity: Option<f64>,
    stable_window_seconds: f64,
    panic_window_percentage: f64,
    panic_threshold_percentage: f64,
    max_scale_up_rate: f64,
    max_scale_down_rate: f64,
    scale_down_delay_seconds: f64,
    activation_scale: f64,
    reachable: bool,
    #[serde(with = "TraceAggregation")]
    pub(super) aggregation: Aggregation,
}

/// The [`Aggregation`] names of traces.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Aggregation")]
pub enum TraceAggregation {
    #[serde(rename = "linear")]
    Linear,
    #[serde(rename = "weighted")]
    WeightedExponential,
}

/// A spec, checked and converted for the windows and the decider.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) metric: MetricName,
    pub(super) windows: WindowSpec,
    pub(super) decider: DeciderSpec,
}

// === impl Spec ===

impl Spec {
    /// The settings of a live workload.
    pub(super) fn of_workload(metric: MetricName, windows: WindowSpec, decider: &DeciderSpec) -> Self {
        Self {
            metric,
            target: decider.target,
            total_target: decider.total,
            target_burst_capacity: decider.target_burst_capacity.value(),
            stable_window_seconds: windows.stable.as_secs_f64(),
            panic_window_percentage: 100.0 * windows.panic.as_secs_f64() / windows.stable.as_secs_f64(),
            panic_threshold_percentage: 100.0 * decider.panic_threshold,
            max_scale_up_rate: decider.max_scale_up_rate,
            max_scale_down_rate: decider.max_scale_down_rate,
            scale_down_delay_seconds: decider.scale_down_delay.as_secs_f64(),
            activation_scale: decider.activation_scale.into(),
            reachable: decider.reachable,
            aggregation: windows.aggregation,
        }
    }

    /// Checks all values.
    pub(super) fn setup(&self) -> Result<Setup, ReplayError> {
        let stable_window =
            whole("spec.stableWindowSeconds", self.stable_window_seconds, 1..=DAY, UP_TO_A_DAY)?;
        let stable_window = Duration::from_secs(stable_window.into());
        Ok(Setup {
            metric: self.metric,
            windows: self.windows(stable_window)?,
            decider: self.decider(stable_window)?,
        })
    }

    fn windows(&self, stable_window: Duration) -> Result<WindowSpec, ReplayError> {
        let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
        settings.window.stable = stable_window;
        settings.window.panic_percentage = bounded(
            "spec.panicWindowPercentage",
            self.panic_window_percentage,
            |percent| percent > 0.0 && percent <= 100.0,
            "above 0, at most 100",
        )?;
        settings.window.aggregation = self.aggregation;
        Ok(WindowSpec::from(&settings))
    }

    fn decider(&self, stable_window: Duration) -> Result<DeciderSpec, ReplayError> {
        let delay = whole(
            "spec.scaleDownDelaySeconds",
            self.scale_down_delay_seconds,
            0..=DAY,
            "whole seconds from 0 to 86400",
        )?;
        Ok(DeciderSpec {
            target: positive("spec.target", self.target)?,
            total: positive("spec.totalTarget", self.total_target)?,
            target_burst_capacity: burst_capacity(self.target_burst_capacity)?,
            panic_threshold: positive("spec.panicThresholdPercentage", self.panic_threshold_percentage)?
                / 100.0,
            max_scale_up_rate: rate("spec.maxScaleUpRate", self.max_scale_up_rate)?,
            max_scale_down_rate: rate("spec.maxScaleDownRate", self.max_scale_down_rate)?,
            stable_window,
            scale_down_delay: Duration::from_secs(delay.into()),
            activation_scale: whole(
                "spec.activationScale",
                self.activation_scale,
                1..=i32::MAX.unsigned_abs(),
                "whole pods from 1 (not set) to 2147483647",
            )?,
            reachable: self.reachable,
        })
    }
}

// === impl Setup ===

impl Setup {
    /// Checks that `next` may replace this setup within a trace.
    pub(super) fn may_become(&self, next: &Self) -> Result<(), ReplayError> {
        if self.metric != next.metric {
            return Err(ReplayError::Fixed { field: "spec.metric" });
        }
        if self.windows.aggregation != next.windows.aggregation {
            return Err(ReplayError::Fixed { field: "spec.aggregation" });
        }
        Ok(())
    }
}

/// A finite value for which `accept` is true.
pub(super) fn bounded(
    field: &'static str,
    value: f64,
    accept: impl Fn(f64) -> bool,
    bound: &'static str,
) -> Result<f64, ReplayError> {
    if value.is_finite() && accept(value) {
        Ok(value)
    } else {
        Err(ReplayError::OutOfBounds { field, value, bound })
    }
}

/// A whole number. All numbers of a trace are floats, so `2.0` is accepted as well.
pub(super) fn whole(
    field: &'static str,
    value: f64,
    range: RangeInclusive<u32>,
    bound: &'static str,
) -> Result<u32, ReplayError> {
    let floats = f64::from(*range.start())..=f64::from(*range.end());
    bounded(field, value, |v| v.fract() == 0.0 && floats.contains(&v), bound).map(|v| v as u32)
}

fn burst_capacity(value: Option<f64>) -> Result<BurstCapacity, ReplayError> {
    let Some(value) = value else { return Ok(BurstCapacity::BySize) };
    let is_valid = |capacity| capacity >= 0.0 || capacity == -1.0;
    bounded("spec.targetBurstCapacity", value, is_valid, "0 or more, or -1").map(BurstCapacity::from)
}

fn positive(field: &'static str, value: f64) -> Result<f64, ReplayError> {
    bounded(field, value, |v| v > 0.0, "above 0")
}

fn rate(field: &'static str, value: f64) -> Result<f64, ReplayError> {
    bounded(field, value, |v| v > 1.0, "above 1")
}
