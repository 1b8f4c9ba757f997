//! Creates a PodAutoscaler for each HPA that has a metric of Rouse.
//!
//! Input: HPAs. Output: PodAutoscalers of their names, owned by them, and Warning events on HPAs
//! that cannot be followed. The HPA itself is never written. If the HPA is deleted, garbage
//! collection deletes its PodAutoscaler; if it loses its metric of Rouse, this controller does. A
//! PodAutoscaler of the HPA's name with another owner stays as it is, and so does the PodAutoscaler
//! of an HPA that can no longer be decoded. One that was made for an HPA which was deleted with
//! `--cascade=orphan` has no owner, and gets the next HPA of its name as owner.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, Scaler, key_of};
use autoscaler::contract::short_name::workload_label;
use autoscaler::contract::{GROUP, WORKLOAD_LABEL};
use autoscaler::findings::Problem;
use autoscaler::findings::hpa::{AcceptedHpa, HpaAcceptance, accept, annotated_without_metric};
use component_base::kubernetes::Decoded;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::clock::now;
use crate::controllers::context::Context;
use crate::controllers::reconciler::{RESYNC, ReconcileError};
use crate::kubernetes::reasons::Reason;
use crate::kubernetes::server_side_apply::{apply, delete, is_owned_by, may_adopt, owner};

/// Reconciles one HPA.
///
/// # Errors
/// If the API server rejects a write.
pub async fn reconcile(
    object: Arc<Decoded<HorizontalPodAutoscaler>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let (Ok(hpa), Some(key)) = (&object.0, key_of(object.as_ref())) else {
        return Ok(Action::await_change());
    };
    if hpa.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match evaluate(&key, hpa, &context) {
        HpaAcceptance::Foreign => {
            release(&key, hpa, &context).await?;
            match annotated_without_metric(hpa).filter(|_| context.cache.autoscaler_meta(&key).is_none()) {
                Some(problem) => {
                    report_problems(&key, hpa, &context, &[problem], RESYNC);
                    Ok(Action::requeue(RESYNC))
                }
                None => {
                    context.reports.warnings.is_new(&key, "");
                    Ok(Action::await_change())
                }
            }
        }
        HpaAcceptance::Rejected(problem) => {
            report_problems(&key, hpa, &context, &[problem], RESYNC);
            Ok(Action::requeue(RESYNC))
        }
        HpaAcceptance::Accepted(accepted) => {
            apply_pod_autoscaler(&key, hpa, &context, &accepted).await?;
            Ok(Action::requeue(RESYNC))
        }
    }
}

/// Evaluates an HPA together with the other HPAs of its namespace, from the cache.
pub fn evaluate(key: &Key, hpa: &HorizontalPodAutoscaler, context: &Context) -> HpaAcceptance {
    let siblings = context.cache.sibling_hpas(key, hpa);
    accept(hpa, siblings.iter().map(AsRef::as_ref), &context.config(), context.custom_metrics)
}

async fn apply_pod_autoscaler(
    key: &Key,
    hpa: &HorizontalPodAutoscaler,
    context: &Context,
    accepted: &AcceptedHpa,
) -> Result<(), ReconcileError> {
    if let Some(meta) = context.cache.autoscaler_meta(key)
        && !meta.owner_references.iter().flatten().any(|owner| is_reference_to(owner, hpa))
        && !is_orphaned(&meta)
    {
        if !is_written_for_hpa(key, context) {
            let problem = format!("PodAutoscaler {} exists and has another owner", key.name);
            let problem = Problem::with_usual_fix(Reason::ForeignPodAutoscaler, problem);
            report_problems(key, hpa, context, &[problem], RESYNC);
        }
        return Ok(());
    }
    report_problems(key, hpa, context, &accepted.advice, Duration::MAX);
    let uid = hpa.metadata.uid.as_deref();
    let client = &context.clients.rate_limited;
    if let Some(existing) = context.cache.autoscaler(key) {
        // Each write has the owner, which an orphaning deletion may be about to remove.
        let is_current = is_owned_by(existing.as_ref(), uid) && !differs(&existing, accepted);
        if is_current || !may_adopt(client, hpa).await? {
            context.cache.abandoned_targets.attempted(key, true, now());
            return Ok(());
        }
    }
    let applied = apply::<PodAutoscaler>(client, &desired(key, hpa, accepted)).await;
    context.cache.abandoned_targets.attempted(key, applied.is_ok(), now());
    applied?;
    tracing::info!("PodAutoscaler applied for HPA");
    Ok(())
}

/// Compares names, not UIDs: the PodAutoscaler of a deleted HPA of this name is taken over before
/// garbage collection deletes it with all that it owns.
fn is_reference_to(owner: &OwnerReference, hpa: &HorizontalPodAutoscaler) -> bool {
    owner.kind == HorizontalPodAutoscaler::kind(&()) && Some(&owner.name) == hpa.metadata.name.as_ref()
}

/// Whether this controller made a PodAutoscaler whose HPA was deleted without it: the label stays.
fn is_orphaned(meta: &ObjectMeta) -> bool {
    meta.owner_references.iter().flatten().next().is_none()
        && meta.labels.as_ref().is_some_and(|labels| labels.contains_key(WORKLOAD_LABEL))
}

/// Whether a user wrote the PodAutoscaler of this name to go with an HPA.
fn is_written_for_hpa(key: &Key, context: &Context) -> bool {
    let autoscaler = context.cache.autoscaler(key);
    autoscaler.is_some_and(|a| a.spec.scaler != Scaler::Direct && a.owner_references().is_empty())
}

/// Deletes the PodAutoscaler of an HPA that has no metric of Rouse any more.
async fn release(key: &Key, hpa: &HorizontalPodAutoscaler, context: &Context) -> Result<(), ReconcileError> {
    if let Some(existing) = context.cache.autoscaler(key)
        && (is_owned_by(existing.as_ref(), hpa.metadata.uid.as_deref()) || is_orphaned(existing.meta()))
    {
        delete(&context.clients.rate_limited, existing.as_ref()).await?;
        let note = format!("deleted PodAutoscaler {}: the HPA has no metric of Rouse any more", key.name);
        context.reports.events.normal(hpa, Reason::Released, note);
    }
    Ok(())
}

/// Reports problems as one Warning event on the HPA, again after `repeat_after`. A rejection is
/// repeated, because without a PodAutoscaler no condition shows it.
fn report_problems(
    key: &Key,
    hpa: &HorizontalPodAutoscaler,
    context: &Context,
    problems: &[Problem],
    repeat_after: Duration,
) {
    let message = problems.iter().map(Problem::message).collect::<Vec<_>>().join("; ");
    if context.reports.warnings.is_due(key, &message, repeat_after)
        && let Some(first) = problems.first()
    {
        context.reports.events.warning(hpa, first.reason, message);
    }
}

fn differs(existing: &PodAutoscaler, accepted: &AcceptedHpa) -> bool {
    let prefix = format!("{GROUP}/");
    let annotations = existing.annotations().iter().filter(|(key, _)| key.starts_with(&prefix));
    existing.spec != accepted.spec || !annotations.eq(accepted.annotations.iter())
}

fn desired(key: &Key, hpa: &HorizontalPodAutoscaler, accepted: &AcceptedHpa) -> Value {
    json!({
        "apiVersion": PodAutoscaler::api_version(&()),
        "kind": PodAutoscaler::kind(&()),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {WORKLOAD_LABEL: workload_label(&key.name)},
            "annotations": accepted.annotations,
            "ownerReferences": [owner(hpa)],
        },
        "spec": accepted.spec,
    })
}
