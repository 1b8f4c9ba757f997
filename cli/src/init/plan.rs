//! InitPlan: all changes for one target. Pure.

use autoscaler::findings::pod_start;
use autoscaler::findings::sidecar::sidecar_of;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::Serialize;
use serde_json::Value;

use super::change::{Change, Step};
use super::{hpa, pod_template, service, target};
use crate::args::{InitArgs, InitStep};

/// The objects that a plan is made from.
#[derive(Clone, Debug)]
pub(super) struct TargetObjects {
    /// The Deployment or StatefulSet.
    pub(super) target: Value,
    /// The Services of its namespace.
    pub(super) services: Vec<Value>,
    /// The HPAs of its namespace.
    pub(super) hpas: Vec<Value>,
    /// Whether HPAs read Rouse's metrics as those of a Service.
    pub(super) custom_metrics: bool,
}

/// All changes, in their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct InitPlan {
    pub(super) notes: Vec<String>,
    pub(super) changes: Vec<Change>,
}

/// The plan, or what keeps the target from being scaled, with the fix.
pub(super) fn plan(objects: &TargetObjects, args: &InitArgs) -> Result<InitPlan, String> {
    let target = &objects.target;
    let template = target.pointer("/spec/template").unwrap_or(&Value::Null);
    let service = service::find(&objects.services, template, args.service.as_deref())?;
    let mut scale = target::target(template, args.concurrency)?;
    let sidecar = args.with_sidecar || has_sidecar(template);
    // The annotation of pods with a sidecar counts as that of the HPA.
    scale.limit = scale.limit.filter(|_| !sidecar);
    scale.of_service = objects.custom_metrics;
    let mut changes = Vec::new();
    if sidecar {
        let (change, app_port) = service::through_sidecar(service, template);
        changes.extend(pod_template::change(target, app_port));
        changes.extend(change);
    } else {
        changes.extend(service::without_sidecar(service));
    }
    let has_new_metric = changes.len();
    changes.extend(hpa::change(&objects.hpas, target, service, &scale, args.slow_start)?);
    let mut notes = Vec::new();
    if changes.len() > has_new_metric {
        notes.push(scale.source);
    }
    notes.extend(parsed(template).iter().filter_map(pod_start::advice).map(str::to_owned));
    let has_steps = changes.iter().any(|change| change.step == Step::Pods) && args.step == InitStep::All;
    if has_steps && args.apply {
        return Err("pods without the sidecar get no requests from the changed Service: apply with --step pods, wait for the \
             rollout, then apply with --step traffic"
            .to_owned());
    }
    if has_steps {
        notes.push(
            "pods without the sidecar get no requests from the changed Service: for a workload that serves, apply --step pods, \
             wait for the rollout, then apply --step traffic"
                .to_owned(),
        );
    }
    changes.retain(|change| args.step.includes(change.step == Step::Pods));
    Ok(InitPlan { notes, changes })
}

/// Whether pods of the template have a sidecar, which is what Rouse takes a workload's pods for.
fn has_sidecar(template: &Value) -> bool {
    parsed(template).is_some_and(|template| sidecar_of(&template).mode().is_required())
}

fn parsed(template: &Value) -> Option<PodTemplateSpec> {
    serde_json::from_value(template.clone()).ok()
}
