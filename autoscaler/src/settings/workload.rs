//! Settings of one workload: the ConfigMap, overridden by the workload's annotations.
//!
//! Input: [`AutoscalerConfig`](crate::settings::AutoscalerConfig), the annotations of a
//! PodAutoscaler, and the replica bounds of its spec. Output: one [`Settings`] value for collector,
//! decider and zero-scaler, which all resolve it with the same function.
//!
//! An invalid annotation is reported and ignored; the value of the ConfigMap stays in effect. Of
//! two annotations in conflict, both are ignored.

use super::groups::learning::LearningSettings;
use super::groups::pods::PodSettings;
use super::groups::scale::ScaleSettings;
use super::groups::target::TargetSettings;
use super::groups::timeouts::TimeoutSettings;
use super::groups::wake::WakeSettings;
use super::groups::window::WindowSettings;
use super::groups::zero::ZeroSettings;
use super::reader::SettingReader;
use super::values::burst_capacity::BurstCapacity;
use super::values::learn_target::LearnTarget;
use super::values::schedule::{Schedule, ScheduledMinimum};
use super::values::sidecar_mode::SidecarMode;
use crate::contract::metric_name::MetricName;

/// Scaling settings of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// When it may be scaled to zero.
    pub zero: ZeroSettings,
    /// The windows over which its load is averaged.
    pub window: WindowSettings,
    /// The load that one pod should carry.
    pub target: TargetSettings,
    /// Its learned target.
    pub learning: LearningSettings,
    /// Its sizes, and how fast they change.
    pub scale: ScaleSettings,
    pub wake: WakeSettings,
    /// Timeouts of requests to pods without a sidecar.
    pub timeouts: TimeoutSettings,
    /// The pods behind its Service.
    pub pods: PodSettings,
}

// === impl Settings ===

impl Settings {
    /// Reads each setting. `cluster` has the values of those that are not given; without it they
    /// are the defaults.
    pub(super) fn read(reader: &mut SettingReader<'_>, cluster: Option<&Self>) -> Self {
        Self {
            zero: ZeroSettings::read(reader, cluster.map(|it| &it.zero)),
            window: WindowSettings::read(reader, cluster.map(|it| &it.window)),
            target: TargetSettings::read(reader, cluster.map(|it| &it.target)),
            learning: LearningSettings::read(reader, cluster.map(|it| &it.learning)),
            scale: ScaleSettings::read(reader, cluster.map(|it| &it.scale)),
            wake: WakeSettings::read(reader, cluster.map(|it| &it.wake)),
            timeouts: TimeoutSettings::read(reader),
            pods: PodSettings::read(reader),
        }
    }

    /// Target utilization: the fraction of a pod's capacity that is used as the target.
    pub fn utilization(&self, metric: MetricName) -> f64 {
        self.target.utilization(metric)
    }

    /// Applies whether the pods have a queue-proxy: without one, activators limit and count, so
    /// they stay in the request path.
    pub fn apply_sidecar_mode(&mut self, mode: SidecarMode) {
        if !mode.is_required() {
            self.target.burst_capacity = BurstCapacity::Always;
        }
    }

    /// The schedule within the largest size; `None` for an unreachable workload, which has no
    /// smallest size either.
    pub fn schedule_in_force(&self) -> Option<Schedule> {
        let schedule = self.scale.schedule.as_ref().filter(|_| self.zero.reachability.is_reachable())?;
        Some(schedule.at_most(self.scale.max))
    }

    /// Raises the smallest size to the schedule's at `now`, in Unix milliseconds, and returns the
    /// schedule's.
    pub fn apply_schedule(&mut self, now: i64) -> Option<ScheduledMinimum> {
        let scheduled = self.schedule_in_force()?.at(now);
        self.scale.min = self.scale.min.max(scheduled.minimum);
        Some(scheduled)
    }

    /// Whether a target of this metric is learned. Only concurrency shows how full a pod is.
    pub fn learns(&self, metric: MetricName) -> bool {
        self.learning.mode != LearnTarget::Off && metric == MetricName::Concurrency
    }
}
