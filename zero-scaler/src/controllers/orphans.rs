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
//! An acceptable HPA gets a PodAutoscaler within moments, unless the API server refuses it or does
//! not serve the kind. Then its target is an orphan too: the Service may have lost its endpoints
//! with the PodAutoscaler, and an HPA of a target at zero is disabled.
//!
//! Finalizers are not used: namespaces with them could not be deleted once Rouse is uninstalled. In
//! a namespace that is being deleted nothing is scaled.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Time in which an HPA gets its PodAutoscaler.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Targets of HPAs that should get a PodAutoscaler, and since when. Not more than the targets at
/// zero.
type AwaitedTargets = HashMap<Target, Instant>;

/// Scales orphans from zero until it is dropped.
pub(crate) async fn scale_orphans(context: Arc<Context>) {
    let mut awaited = AwaitedTargets::new();
    loop {
        let targets = targets_at_zero(&context.cache);
        awaited.retain(|target, _| targets.contains(target));
        for target in targets {
            match scale_if_orphan(&target, &mut awaited, &context).await {
                Ok(()) if awaited.contains_key(&target) => {}
                Ok(()) => context.cache.abandoned_targets.forget(&target),
                Err(error) => {
                    let (namespace, ScaleTargetRef { kind, name, .. }) = &target;
                    tracing::warn!(%namespace, %kind, %name, %error, "could not scale an orphan from 0 to 1, retrying");
                }
            }
        }
        let interval = if awaited.is_empty() { CHECK_INTERVAL } else { ADOPTION_TIMEOUT };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = context.cache.abandoned_targets.more.notified() => tokio::time::sleep(DELETION_DELAY).await,
        }
    }
}

/// Watched targets that the zero-scaler scaled to zero, and the recorded ones of other kinds.
fn targets_at_zero(cache: &ClusterCache) -> HashSet<Target> {
    let mut targets_at_zero = cache.abandoned_targets.lock().clone();
    for (kind, targets) in [("Deployment", &cache.deployments), ("StatefulSet", &cache.stateful_sets)] {
        let keys = targets.keys_where(|t| t.scale.replicas == 0 && t.scale.writer == Writer::Us);
        targets_at_zero.extend(keys.into_iter().map(|key| target(kind, key)));
    }
    targets_at_zero
}

fn target(kind: &str, Key { namespace, name }: Key) -> Target {
    (namespace, ScaleTargetRef { api_version: "apps/v1".to_owned(), kind: kind.to_owned(), name })
}

async fn scale_if_orphan(
    target: &Target,
    awaited: &mut AwaitedTargets,
    context: &Context,
) -> Result<(), ReconcileError> {
    if is_managed(target, context) {
        awaited.remove(target);
        return Ok(());
    }
    let (namespace, ScaleTargetRef { kind, name, .. }) = target;
    let hpas = context.cache.hpas_of_target(namespace, kind, name);
    if hpas.iter().any(|(key, hpa)| is_acceptable(key, hpa, context)) {
        let since = *awaited.entry(target.clone()).or_insert_with(now);
        if now().saturating_duration_since(since) < ADOPTION_TIMEOUT {
            return Ok(());
        }
    }
    let is_scaled = scale_to_one(target, context).await?;
    awaited.remove(target);
    if !is_scaled {
        return Ok(());
    }
    context.metrics.scale_writes.with_label_values(&["orphan"]).inc();
    tracing::info!(%namespace, %kind, %name, "scaled an orphan from 0 to 1");
    if let Some((_, hpa)) = hpas.first() {
        let note = format!("scaled from 0 to 1: {kind} {name:?} is no longer managed by Rouse");
        context.reports.events.normal(hpa.as_ref(), Reason::ScaledFromZero, note);
    }
    Ok(())
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
