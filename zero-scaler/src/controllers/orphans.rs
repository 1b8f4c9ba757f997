//! Scales orphans to one pod: workloads at zero that Rouse no longer manages.
//!
//! A PodAutoscaler is deleted with its HPA, or when the HPA has no metric of Rouse any more, or it
//! gets another target. If the target that it had is at zero then, nothing else would scale it: the
//! HPA is gone, or disabled at zero.
//!
//! So the leader lists targets periodically, and soon after a PodAutoscaler was deleted or changed.
//! An orphan is at zero by a write of the zero-scaler, and neither a PodAutoscaler nor an
//! acceptable HPA names it. The check uses the current objects, so a deletion without a running
//! zero-scaler is found as well. Only targets of unwatched kinds have to be recorded.
//!
//! If the API server refuses the PodAutoscaler of an acceptable HPA, or does not serve the kind,
//! its target is an orphan too: the Service may have lost its endpoints with the former
//! PodAutoscaler, and an HPA of a target at zero is disabled.
//!
//! Finalizers are not used: namespaces with them could not be deleted once Rouse is uninstalled. In
//! a namespace that is being deleted nothing is scaled.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::ScaleTargetRef;
use autoscaler::findings::hpa::HpaAcceptance;
use component_base::kubernetes::{ObservedReplicas, ScaleFromZeroResult, scale_from_zero};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::cache::abandoned_targets::Target;
use crate::cache::cached_target::scale::Writer;
use crate::cache::cluster_cache::ClusterCache;
use crate::clock::now;
use crate::controllers::context::Context;
use crate::controllers::hpa::evaluate;
use crate::controllers::reconciler::ReconcileError;
use crate::kubernetes::reasons::Reason;
use crate::scaling::scale_targets::{ScaleAccess, ScaleError, TargetScale};

/// Interval of the check when no PodAutoscaler was deleted.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Delay after the deletion of a PodAutoscaler, which may be about to be created again.
const DELETION_DELAY: Duration = Duration::from_secs(1);

/// Time for which the API server may refuse the PodAutoscaler of an HPA.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// Scales orphans from zero until it is dropped.
pub(crate) async fn scale_orphans(context: Arc<Context>) {
    loop {
        for target in targets_at_zero(&context.cache) {
            match scale_if_orphan(&target, &context).await {
                Ok(true) => context.cache.abandoned_targets.remove(&target),
                Ok(false) => {}
                Err(error) => {
                    let (namespace, ScaleTargetRef { kind, name, .. }) = &target;
                    tracing::warn!(%namespace, %kind, %name, %error, "could not scale an orphan from 0 to 1, retrying");
                }
            }
        }
        let has_refused =
            context.cache.abandoned_targets.prune_refused(|hpa| context.cache.hpa(hpa).is_some());
        let interval = if has_refused { REFUSED_FOR } else { CHECK_INTERVAL };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = context.cache.abandoned_targets.more.notified() => tokio::time::sleep(DELETION_DELAY).await,
        }
    }
}

/// Watched targets that the zero-scaler scaled to zero, and the recorded ones of other kinds.
fn targets_at_zero(cache: &ClusterCache) -> HashSet<Target> {
    let mut targets_at_zero = cache.abandoned_targets.workloads_at_zero.lock().clone();
    for (kind, targets) in [("Deployment", &cache.deployments), ("StatefulSet", &cache.stateful_sets)] {
        let keys = targets.keys_where(|t| t.scale.replicas == 0 && t.scale.writer == Writer::Us);
        targets_at_zero.extend(keys.into_iter().map(|key| target(kind, key)));
    }
    targets_at_zero
}

fn target(kind: &str, Key { namespace, name }: Key) -> Target {
    (namespace, ScaleTargetRef { api_version: "apps/v1".to_owned(), kind: kind.to_owned(), name })
}

/// False while an HPA may still get a PodAutoscaler.
async fn scale_if_orphan(target: &Target, context: &Context) -> Result<bool, ReconcileError> {
    if is_managed(target, context) {
        return Ok(true);
    }
    let (namespace, ScaleTargetRef { kind, name, .. }) = target;
    let hpas = context.cache.hpas_of_target(namespace, kind, name);
    if hpas.iter().any(|(key, hpa)| is_acceptable(key, hpa, context)) {
        return Ok(false);
    }
    if !scale_to_one(target, context).await? {
        return Ok(true);
    }
    context.metrics.scale_writes.with_label_values(&["orphan"]).inc();
    tracing::info!(%namespace, %kind, %name, "scaled an orphan from 0 to 1");
    if let Some((_, hpa)) = hpas.first() {
        let note = format!("scaled from 0 to 1: {kind} {name:?} is no longer managed by Rouse");
        context.reports.events.normal(hpa.as_ref(), Reason::ScaledFromZero, note);
    }
    Ok(true)
}

/// Whether a PodAutoscaler names the target, or an undecodable PodAutoscaler may do so.
fn is_managed((namespace, target): &Target, context: &Context) -> bool {
    let cache = &context.cache;
    let names_it = |key: &Key| {
        let autoscaler = cache.autoscaler(key);
        autoscaler.is_some_and(|autoscaler| autoscaler.spec.scale_target_ref.is_same_object(target))
    };
    cache.workloads_of_target(namespace, &target.kind, &target.name).iter().any(names_it)
        || cache.has_undecodable_autoscaler(namespace)
}

/// Whether the HPA is about to get a PodAutoscaler.
fn is_acceptable(key: &Key, hpa: &HorizontalPodAutoscaler, context: &Context) -> bool {
    hpa.metadata.deletion_timestamp.is_none()
        && !context.cache.abandoned_targets.is_refused_for(key, REFUSED_FOR, now())
        && matches!(evaluate(key, hpa, context), HpaAcceptance::Accepted(_))
}

/// True if the size was written; false if the target is above zero, was scaled to zero by another
/// writer, or is being deleted.
async fn scale_to_one((namespace, target): &Target, context: &Context) -> Result<bool, ReconcileError> {
    let scales = context.scaling.scales.as_ref();
    let scale = match scales.cached(namespace, target) {
        Some(scale) => Ok(scale),
        None => scales.read(namespace, target).await,
    };
    let scale = match scale {
        Err(ScaleError::NotFound(_) | ScaleError::NotScalable { .. } | ScaleError::Controlled { .. }) => {
            return Ok(false);
        }
        scale => scale?,
    };
    if scale.replicas > 0
        || matches!(scale.writer, Writer::Other(_))
        || is_terminating(namespace, context).await?
    {
        return Ok(false);
    }
    let subresource = TargetScale { scales, namespace, target };
    match scale_from_zero(&subresource, Some(ObservedReplicas::from(&scale)), 1).await {
        Ok(ScaleFromZeroResult::Scaled) => Ok(true),
        Ok(ScaleFromZeroResult::AboveZero) | Err(ScaleError::NotFound(_)) => Ok(false),
        Ok(ScaleFromZeroResult::Conflict) => Err(ScaleError::conflict(target).into()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the namespace is being deleted, or is gone.
async fn is_terminating(namespace: &str, context: &Context) -> Result<bool, ReconcileError> {
    let object = Api::<Namespace>::all(context.clients.urgent.without_rate_limit().clone())
        .get_metadata_opt(namespace)
        .await?;
    Ok(object.is_none_or(|object| object.metadata.deletion_timestamp.is_some()))
}
