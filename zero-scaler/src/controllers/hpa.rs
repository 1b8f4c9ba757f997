//! Adoption: an HPA that asks for one of our metrics gets a PodAutoscaler of its name.
//!
//! Input: HPAs. Output: PodAutoscalers owned by them, and Warning events on HPAs that cannot be served as they are. The
//! HPA itself is never written. When it goes, its PodAutoscaler goes by garbage collection; when it stops to ask for our
//! metrics, we delete it. A PodAutoscaler of that name that somebody else made is left alone.

mod acceptance;

use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, Scaler, key_of};
use autoscaler::contract::{GROUP, WORKLOAD_LABEL};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::controllers::context::Context;
use crate::controllers::reconciler::{RESYNC, ReconcileError};
use crate::kubernetes::reasons::Reason;
use crate::kubernetes::server_side_apply::{apply, delete, is_owned_by, owner};

pub(crate) use acceptance::is_ambiguous;
pub use acceptance::{AcceptedHpa, HpaAcceptance, HpaProblem, accept};

/// Looks at one HPA.
///
/// # Errors
/// When the API server refuses a write.
pub async fn reconcile(
    hpa: Arc<HorizontalPodAutoscaler>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let Some(key) = key_of(hpa.as_ref()) else { return Ok(Action::await_change()) };
    if hpa.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    match verdict(&key, &hpa, &context) {
        HpaAcceptance::Foreign => {
            abandon(&key, &hpa, &context).await?;
            Ok(Action::await_change())
        }
        HpaAcceptance::Rejected(problem) => {
            warn(&key, &hpa, &context, &[problem], RESYNC);
            Ok(Action::requeue(RESYNC))
        }
        HpaAcceptance::Accepted(accepted) => {
            adopt(&key, &hpa, &context, &accepted).await?;
            Ok(Action::requeue(RESYNC))
        }
    }
}

/// The verdict on an HPA as the watches know its neighbours.
pub fn verdict(key: &Key, hpa: &HorizontalPodAutoscaler, context: &Context) -> HpaAcceptance {
    let siblings = context.cache.sibling_hpas(key, hpa);
    accept(hpa, siblings.iter().map(AsRef::as_ref), &context.config(), context.custom_metrics)
}

async fn adopt(
    key: &Key,
    hpa: &HorizontalPodAutoscaler,
    context: &Context,
    accepted: &AcceptedHpa,
) -> Result<(), ReconcileError> {
    if let Some(meta) = context.cache.autoscaler_meta(key)
        && !meta.owner_references.iter().flatten().any(|owner| names(owner, hpa))
    {
        if !leaves_sizes_to_us(key, context) {
            let words = format!(
                "there is a PodAutoscaler {} that this HPA does not own; delete it, rename the HPA, or have that one leave \
                 sizes to this HPA by spec.scaler: HPA",
                key.name
            );
            warn(key, hpa, context, &[HpaProblem::new(Reason::ForeignPodAutoscaler, words)], RESYNC);
        }
        return Ok(());
    }
    warn(key, hpa, context, &accepted.advice, Duration::MAX);
    let uid = hpa.metadata.uid.as_deref();
    let existing = context.cache.autoscaler(key);
    if existing.is_none_or(|existing| differs(&existing, accepted) || !is_owned_by(&existing, uid)) {
        apply::<PodAutoscaler>(&context.rate_limited, &desired(key, hpa, accepted)).await?;
        tracing::info!(workload = %key, "PodAutoscaler made from its HPA");
    }
    Ok(())
}

/// Whether this is, or was, the HPA's reference: what the HPA of this name left behind is taken over, before it is collected with all
/// that is under it.
fn names(owner: &OwnerReference, hpa: &HorizontalPodAutoscaler) -> bool {
    owner.kind == HorizontalPodAutoscaler::kind(&()) && Some(&owner.name) == hpa.metadata.name.as_ref()
}

/// Whether the PodAutoscaler of this name was written by a user for an HPA of this name.
fn leaves_sizes_to_us(key: &Key, context: &Context) -> bool {
    let autoscaler = context.cache.autoscaler(key);
    autoscaler.is_some_and(|a| a.spec.scaler == Scaler::Hpa && a.owner_references().is_empty())
}

/// An HPA without a metric of ours keeps no PodAutoscaler.
async fn abandon(key: &Key, hpa: &HorizontalPodAutoscaler, context: &Context) -> Result<(), ReconcileError> {
    context.warnings.is_new(key, "");
    if let Some(existing) = context.cache.autoscaler(key)
        && is_owned_by(&existing, hpa.metadata.uid.as_deref())
    {
        delete(&context.rate_limited, &existing).await?;
        context.events.normal(
            hpa,
            Reason::Released,
            "the HPA asks for no metric of Rouse any more".to_owned(),
        );
    }
    Ok(())
}

/// Advice is told once. Where there is no PodAutoscaler, nothing else than this tells the user: so a refusal is told again.
fn warn(
    key: &Key,
    hpa: &HorizontalPodAutoscaler,
    context: &Context,
    problems: &[HpaProblem],
    again_after: Duration,
) {
    let words = problems.iter().map(|p| p.message.as_str()).collect::<Vec<_>>().join("; ");
    if context.warnings.is_due(key, &words, again_after)
        && let Some(first) = problems.first()
    {
        context.events.warning(hpa, first.reason, words);
    }
}

fn differs(existing: &PodAutoscaler, accepted: &AcceptedHpa) -> bool {
    let prefix = format!("{GROUP}/");
    let ours = existing.annotations().iter().filter(|(key, _)| key.starts_with(&prefix));
    existing.spec != accepted.spec || !ours.eq(accepted.annotations.iter())
}

fn desired(key: &Key, hpa: &HorizontalPodAutoscaler, accepted: &AcceptedHpa) -> Value {
    json!({
        "apiVersion": PodAutoscaler::api_version(&()),
        "kind": PodAutoscaler::kind(&()),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {WORKLOAD_LABEL: key.name},
            "annotations": accepted.annotations,
            "ownerReferences": [owner(hpa)],
        },
        "spec": accepted.spec,
    })
}
