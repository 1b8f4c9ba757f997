//! Writes what a plan needs: the size, the objects of the workload, the status, and events.
//!
//! Only differences from the observed objects are written.

use autoscaler::Key;
use autoscaler::api::{Metric, PodAutoscaler, PodAutoscalerStatus, ServerlessService, SksMode};
use autoscaler::scaling::scale_to_zero::ActivePhase;
use autoscaler::settings::LearnTarget;
use component_base::kubernetes::ObservedReplicas;
use serde_json::Value;

use super::decide::{Plan, SizeToWrite, WriteCause};
use super::observe::{ObservedWorkload, is_of_hpa};
use super::scale_write::{ScaleWriteResult, grow, write_once};
use super::{degraded, desired, learning, status};
use crate::activators::path_verification::PathError;
use crate::clock::now;
use crate::controllers::context::Context;
use crate::controllers::reconciler::ReconcileError;
use crate::kubernetes::errors::refusal;
use crate::kubernetes::reasons::Reason;
use crate::kubernetes::server_side_apply::{apply, apply_status, is_owned_by, may_adopt};
use crate::scaling::scale_targets::{ScaleError, TargetScale};

/// Writes the size of the plan, if it has one.
pub(super) async fn scale(
    observed: &ObservedWorkload,
    plan: &Plan,
    context: &Context,
) -> Result<ScaleWriteResult, ScaleError> {
    if !observed.decision.as_ref().is_some_and(|d| d.panicking) {
        context.scaling.overrides.end(&observed.key);
    }
    let (Some(write), Ok(scale)) = (plan.write, &observed.scale) else {
        return Ok(ScaleWriteResult::NotNeeded);
    };
    let is_panic = write.cause == WriteCause::Panic;
    if is_panic && !context.scaling.overrides.may_write(&observed.key, write.to, now()) {
        return Ok(ScaleWriteResult::Delayed);
    }
    let target = TargetScale {
        scales: context.scaling.scales.as_ref(),
        namespace: &observed.key.namespace,
        target: &observed.autoscaler.spec.scale_target_ref,
    };
    let before = ObservedReplicas::from(scale);
    let written = match write.cause {
        WriteCause::Panic => grow(&target, before, write.to).await,
        _ => write_once(&target, before, write.to).await,
    };
    match written {
        Ok(Some(from)) => {
            report_size(observed, from, write, context);
            if matches!(write.cause, WriteCause::Idle | WriteCause::Direct) {
                context.scaling.size_conflicts.wrote(&observed.key, write.to, now());
            }
            if is_panic && context.scaling.overrides.wrote(&observed.key, write.to, now()) {
                report_scale_conflict(observed, context);
            }
            Ok(ScaleWriteResult::Written(write.to))
        }
        Ok(None) => Ok(ScaleWriteResult::NotNeeded),
        Err(ScaleError::Conflict(_)) => Ok(ScaleWriteResult::Conflict),
        Err(error) => Err(error),
    }
}

fn report_size(observed: &ObservedWorkload, from: i32, write: SizeToWrite, context: &Context) {
    context.metrics.scale_writes.with_label_values(&[write.cause.as_str()]).inc();
    let reason = match write.cause {
        WriteCause::Idle => Reason::ScaledToZero,
        WriteCause::Wanted | WriteCause::NotAllowed | WriteCause::Scheduled | WriteCause::NoActivator => {
            Reason::ScaledFromZero
        }
        WriteCause::Panic => Reason::ScaledForPanic,
        WriteCause::Direct => Reason::Scaled,
        WriteCause::UnresponsiveNode => Reason::ScaledBesideLostNode,
    };
    let note = format!("scaled from {from} to {}: {}", write.to, cause_text(observed, write.cause));
    context.reports.events.normal(&observed.autoscaler, reason, note);
}

fn report_scale_conflict(observed: &ObservedWorkload, context: &Context) {
    let target = &observed.autoscaler.spec.scale_target_ref;
    let (kind, name) = (&target.kind, &target.name);
    let note = format!(
        "another controller reverts the size of {kind} {name} during a panic; find it in the managed fields \
         (kubectl get {kind} {name} -o yaml --show-managed-fields), and stop it"
    );
    context.reports.events.warning(&observed.autoscaler, Reason::ScaleConflict, note);
}

fn cause_text(observed: &ObservedWorkload, cause: WriteCause) -> String {
    let decision = observed.decision.as_ref().map_or_else(String::new, |d| {
        format!(" (desired {}, stable average {:.2}, panic average {:.2})", d.desired, d.stable, d.panic)
    });
    match cause {
        WriteCause::Idle => {
            "no request for the stable window; activators answer at the Service's address".to_owned()
        }
        WriteCause::Wanted => format!("requests need pods{decision}"),
        WriteCause::NotAllowed => "scale-to-zero is off for the workload or the cluster".to_owned(),
        WriteCause::Scheduled => "the schedule of the workload requires pods".to_owned(),
        WriteCause::NoActivator => "no activator is ready to hold requests".to_owned(),
        WriteCause::Panic => format!("the panic window needs more pods than the HPA has set{decision}"),
        WriteCause::UnresponsiveNode => {
            let message = observed.start_failure.as_ref().map_or("", |failure| &failure.message);
            format!("no pod can become ready: {message}")
        }
        WriteCause::Direct => format!("the desired size within the bounds{decision}"),
    }
}

/// Writes that differ from the observed objects. No held request depends on them, so they are rate
/// limited, except for a changed selector.
#[derive(Debug, Default)]
pub(super) struct DueWrites {
    metric: Option<Value>,
    serverless_service: Option<Value>,
    status: Option<PodAutoscalerStatus>,
    moves_requests: bool,
    /// Whether an existing object has no owner, or a former one.
    adopts: bool,
}

// === impl DueWrites ===

impl DueWrites {
    pub(super) fn new(
        observed: &ObservedWorkload,
        plan: &Plan,
        written: &Result<ScaleWriteResult, ScaleError>,
        verification: Option<&Result<(), PathError>>,
    ) -> Self {
        let status = status::status(observed, plan, written, verification);
        let status = Some(status).filter(|status| observed.autoscaler.status.as_ref() != Some(status));
        Self { status, ..Self::children(observed, plan) }
    }

    fn children(observed: &ObservedWorkload, plan: &Plan) -> Self {
        // Without the target's selector the specs would be incomplete; the existing objects stay.
        let (Some(target), Some(selection)) = (observed.target_selector(), observed.pod_selection()) else {
            return Self::default();
        };
        let (key, autoscaler) = (&observed.key, &observed.autoscaler);
        let sidecar = observed.sidecar_mode;
        let (limit, bypassed) = (observed.pod_limit, observed.is_uncounted());
        let metric = desired::metric(autoscaler, &selection, target, sidecar, limit, bypassed);
        let sks = desired::serverless_service(autoscaler, &selection, &observed.settings, sidecar, plan);
        // Garbage collection deletes an object whose owner is a deleted PodAutoscaler of this name.
        let uid = autoscaler.metadata.uid.as_deref();
        let metric_is_due = observed
            .metric
            .as_ref()
            .is_none_or(|existing| existing.spec != metric || existing.owner.as_deref() != uid);
        let sks_is_due = observed
            .serverless_service
            .as_ref()
            .is_none_or(|existing| existing.spec != sks || !is_owned_by(existing, uid));
        Self {
            metric: metric_is_due.then(|| desired::child::<Metric>(key, autoscaler, &metric)),
            serverless_service: sks_is_due
                .then(|| desired::child::<ServerlessService>(key, autoscaler, &sks)),
            status: None,
            adopts: observed.metric.as_ref().is_some_and(|existing| existing.owner.as_deref() != uid)
                || observed.serverless_service.as_ref().is_some_and(|existing| !is_owned_by(existing, uid)),
            moves_requests: observed
                .serverless_service
                .as_ref()
                .is_some_and(|existing| existing.spec.selector != sks.selector),
        }
    }

    /// Number of API requests that the writes take of the rate limit. None, if the selector
    /// changed: until they are written, requests go to the pods that the Service selected before.
    pub(super) fn limited_requests(&self) -> u32 {
        if self.moves_requests {
            return 0;
        }
        let due = [self.metric.is_some(), self.serverless_service.is_some(), self.status.is_some()];
        due.into_iter().map(u32::from).sum()
    }
}

/// Writes what is due, then reports changes as events. What routes requests is first, and the
/// status has what the API server refused of it.
pub(super) async fn write_due(
    observed: &ObservedWorkload,
    plan: &Plan,
    due: DueWrites,
    context: &Context,
) -> Result<(), ReconcileError> {
    let client = context.clients.urgent.without_rate_limit();
    if due.adopts && !may_adopt(client, &observed.autoscaler).await? {
        return Ok(());
    }
    let mut children = Ok(());
    if let Some(sks) = &due.serverless_service {
        children = apply::<ServerlessService>(client, sks).await.map(drop);
    }
    if let Some(metric) = &due.metric {
        children = children.and(apply::<Metric>(client, metric).await.map(drop));
    }
    let before = observed.autoscaler.status.as_ref();
    let refused = children.as_ref().err().and_then(refusal);
    let after = match refused {
        Some(message) => {
            let after = due.status.or_else(|| before.cloned()).unwrap_or_default();
            Some(status::refused(observed, after, message)).filter(|after| before != Some(after))
        }
        None => due.status,
    };
    if let Some(after) = after {
        let Key { namespace, name } = &observed.key;
        apply_status::<PodAutoscaler, _>(client, namespace, name, &after).await?;
        report_changes(observed, plan, &after, context);
    }
    children.map_err(ReconcileError::from)
}

/// Reports what a new status changes.
fn report_changes(observed: &ObservedWorkload, plan: &Plan, after: &PodAutoscalerStatus, context: &Context) {
    let before = observed.autoscaler.status.as_ref();
    if let Some(mode) = after.mode.filter(|mode| before.and_then(|b| b.mode) != Some(*mode)) {
        report_route(observed, plan, mode, context);
    }
    report_advice(observed, context);
    report_learned_target(observed, after, context);
    status::warnings(observed, before, after)
        .into_iter()
        .for_each(|(reason, note)| context.reports.events.warning(&observed.autoscaler, reason, note));
}

fn report_advice(observed: &ObservedWorkload, context: &Context) {
    let advice = degraded::advice(observed);
    if context.reports.advice.is_new(&observed.key, advice.as_ref().map_or("", |(_, message)| message))
        && let Some((reason, message)) = advice
    {
        context.reports.events.warning(&observed.autoscaler, reason, message);
    }
}

/// Reports a target in force that differs much from the last reported one, on the object that the
/// user wrote. A recommendation, which no user asked for, is in the status alone.
fn report_learned_target(observed: &ObservedWorkload, after: &PodAutoscalerStatus, context: &Context) {
    let in_force = after.learning.as_ref().filter(|learned| learned.mode == LearnTarget::Apply);
    let Some(learned) = in_force else { return context.reports.learned_targets.remove(&observed.key) };
    let Some(target) = learned.target() else { return };
    let known = learning::known_target(observed);
    let Some(last) = context.reports.learned_targets.replace_if_far(&observed.key, target, known) else {
        return;
    };
    let (reason, note) = (Reason::TargetLearned, learning::note(learned, last, target));
    match context.cache.hpa(&observed.key).filter(|_| is_of_hpa(&observed.autoscaler)) {
        Some(hpa) => context.reports.events.normal(hpa.as_ref(), reason, note),
        None => context.reports.events.normal(&observed.autoscaler, reason, note),
    }
}

fn report_route(observed: &ObservedWorkload, plan: &Plan, mode: SksMode, context: &Context) {
    let (reason, change) = match mode {
        SksMode::Proxy => (Reason::RoutedToActivators, "requests now go through activators"),
        SksMode::Serve => (Reason::RoutedToPods, "requests now go to the pods"),
    };
    if context.reports.modes.is_new(&observed.key, reason.as_str()) {
        let note = format!("{change}: {}", route_cause(observed, plan, mode));
        context.reports.events.normal(&observed.autoscaler, reason, note);
    }
}

fn route_cause(observed: &ObservedWorkload, plan: &Plan, mode: SksMode) -> String {
    match (mode, observed.decision.as_ref().map(|decision| decision.excess_burst_capacity)) {
        (SksMode::Proxy, _) if observed.ready == 0 => "no pod is ready".to_owned(),
        (SksMode::Proxy, _) if plan.activation.phase == ActivePhase::Inactive => {
            "the workload has no requests".to_owned()
        }
        (SksMode::Proxy, _) if !observed.sidecar_mode.is_required() => "the pods have no sidecar".to_owned(),
        (SksMode::Proxy, _) if observed.keeps_endpoints() => {
            "a load balancer in front of the Service needs endpoints that stay".to_owned()
        }
        (SksMode::Proxy, _) if plan.temporary_limit.is_some() => {
            "pods have a limit after a kill for their memory".to_owned()
        }
        (SksMode::Serve, _) if plan.mode == SksMode::Proxy => {
            "no activator can be put in the path".to_owned()
        }
        (_, Some(excess)) => format!("the pods' excess burst capacity is {excess}"),
        (_, None) => "the metrics-adapter has sent no decision".to_owned(),
    }
}
