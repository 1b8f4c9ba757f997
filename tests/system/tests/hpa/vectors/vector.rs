//! A vector: an HPA, its load and the expected result.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use serde_json::Value;
use system_tests::traffic::simulated_activator::ReportedLoad;
use system_tests::workloads::scale_target::{ScaleTarget, ScaleTargets};

/// An HPA's condition: type, status, reason.
pub(super) type HpaCondition = (&'static str, &'static str, &'static str);

pub(super) const METRIC_FOUND: HpaCondition = ("ScalingActive", "True", "ValidMetricFound");
pub(super) const NO_METRIC: HpaCondition = ("ScalingActive", "False", "FailedGetExternalMetric");
pub(super) const DISABLED: HpaCondition = ("ScalingActive", "False", "ScalingDisabled");

/// An HPA, the reported load and the expected result.
pub(super) struct Vector {
    pub(super) target: ScaleTarget,
    pub(super) load: Vec<ReportedLoad>,
    /// The first sizes, the initial one included. A single one: the size must not change.
    pub(super) sizes: Vec<i32>,
    pub(super) condition: HpaCondition,
}

// === impl Vector ===

impl Vector {
    pub(super) fn new(name: &str, load: f64, sizes: &[i32]) -> Self {
        let first = sizes.first().copied().unwrap_or_default();
        Self {
            target: ScaleTarget::new(name, first),
            load: vec![ReportedLoad::Concurrency(load)],
            sizes: sizes.into(),
            condition: METRIC_FOUND,
        }
    }

    pub(super) fn without_reports(name: &str, sizes: &[i32], condition: HpaCondition) -> Self {
        Self { load: vec![], condition, ..Self::new(name, 0.0, sizes) }
    }

    pub(super) fn expecting(self, condition: HpaCondition) -> Self {
        Self { condition, ..self }
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut ScaleTarget)) -> Self {
        change(&mut self.target);
        self
    }

    pub(super) fn behavior(self, behavior: Value) -> Self {
        self.with(|target| target.behavior = behavior)
    }

    /// Checks whether the expected state is reached; the error describes the actual state.
    pub(super) fn check(
        &self,
        targets: &ScaleTargets,
        statuses: &BTreeMap<String, HorizontalPodAutoscalerStatus>,
    ) -> Result<()> {
        let name = &self.target.name;
        let sizes = targets.sizes(name);
        let reached =
            if self.sizes.len() == 1 { sizes == self.sizes } else { sizes.starts_with(&self.sizes) };
        ensure!(reached, "{name}: the sizes are {sizes:?}, expected {:?}", self.sizes);
        let status = statuses.get(name).with_context(|| format!("{name}: the HPA has no status"))?;
        ensure!(
            has_condition(status, self.condition),
            "{name}: the HPA lacks the condition {:?}, it has {:?}",
            self.condition,
            status.conditions
        );
        // The condition must be about the final size and not about the one before.
        let (current, last) = (status.current_replicas.unwrap_or(0), self.sizes.last().copied());
        let moved_on = sizes.len() > self.sizes.len();
        let settled = moved_on || self.target.reported_replicas.is_some() || last == Some(current);
        ensure!(settled, "{name}: the HPA's currentReplicas is {current}");
        Ok(())
    }
}

pub(super) fn has_condition(
    status: &HorizontalPodAutoscalerStatus,
    (kind, value, reason): HpaCondition,
) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|c| c.type_ == kind && c.status == value && c.reason.as_deref() == Some(reason))
}
