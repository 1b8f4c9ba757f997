//! Orphans: who sleeps by our doing, and of whom nobody speaks any more.
//!
//! A PodAutoscaler goes when its HPA is deleted, or asks for no metric of ours any more. If its workload sleeps then, nobody would
//! ever wake it: the HPA is gone, or parked at zero. So the leader looks now and then, and soon after a PodAutoscaler went,
//! for targets that are at zero by our own hand while neither a PodAutoscaler nor an HPA that we would adopt speaks of them, and
//! takes them to one pod. It goes by the objects as they are, so it does not matter who was there when the
//! PodAutoscaler went. Only targets that are not watched have to be remembered from then.
//!
//! Nothing keeps an object from going until then: finalizers would keep namespaces from going where we cannot run any more.
//! In a namespace that is being deleted nobody is woken.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::ScaleTargetRef;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::cache::abandoned_targets::Target;
use crate::cache::cluster_cache::ClusterCache;
use crate::controllers::context::Context;
use crate::controllers::hpa::{HpaAcceptance, verdict};
use crate::controllers::reconciler::ReconcileError;
use crate::kubernetes::reasons::Reason;
use crate::scaling::scale::Writer;
use crate::scaling::scale_targets::{ScaleAccess, ScaleError};

/// How often to look although nothing is known to have gone.
const EVERY: Duration = Duration::from_secs(30);
/// How long after a PodAutoscaler went: it may be on its way back.
const SOON: Duration = Duration::from_secs(1);

/// Wakes orphans, for as long as it is polled.
pub(crate) async fn wake_all(context: Arc<Context>) {
    loop {
        for target in workloads_at_zero(&context.cache) {
            match take_care(&target, &context).await {
                Ok(()) => context.cache.left.forget(&target),
                Err(error) => {
                    let (namespace, ScaleTargetRef { kind, name, .. }) = &target;
                    tracing::warn!(%namespace, %kind, %name, %error, "an orphan is not woken; it is tried again");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = context.cache.left.more.notified() => tokio::time::sleep(SOON).await,
        }
    }
}

/// Targets at zero by our own hand, and those that were left asleep.
fn workloads_at_zero(objects: &ClusterCache) -> HashSet<Target> {
    let mut workloads_at_zero = objects.left.lock().clone();
    for (kind, targets) in [("Deployment", &objects.deployments), ("StatefulSet", &objects.stateful_sets)] {
        let asleep = targets.those(|t| t.scale.replicas == 0 && t.scale.writer == Writer::Us);
        workloads_at_zero.extend(asleep.into_iter().map(|key| target(kind, key)));
    }
    workloads_at_zero
}

fn target(kind: &str, Key { namespace, name }: Key) -> Target {
    (namespace, ScaleTargetRef { api_version: "apps/v1".to_owned(), kind: kind.to_owned(), name })
}

/// Wakes a sleeper, if it is an orphan.
async fn take_care(target: &Target, context: &Context) -> Result<(), ReconcileError> {
    if is_scaled(target, context) {
        return Ok(());
    }
    let (namespace, of) = target;
    let hpas = context.cache.hpas_of_target(namespace, &of.kind, &of.name);
    if hpas.iter().any(|(key, hpa)| is_to_be_adopted(key, hpa, context)) || !wake(target, context).await? {
        return Ok(());
    }
    context.metrics.scale_writes.with_label_values(&["orphan"]).inc();
    let words = format!("{} {} scaled from 0 to 1: Rouse wakes it no more", of.kind, of.name);
    tracing::info!(%namespace, words, "an orphan was woken");
    if let Some((_, hpa)) = hpas.first() {
        context.events.normal(hpa.as_ref(), Reason::ScaledFromZero, words);
    }
    Ok(())
}

/// Whether a PodAutoscaler speaks of it, or one that cannot be read may do so.
fn is_scaled((namespace, of): &Target, context: &Context) -> bool {
    let objects = &context.cache;
    !objects.workloads_of_target(namespace, &of.kind, &of.name).is_empty()
        || objects.has_unreadable(namespace)
}

fn is_to_be_adopted(key: &Key, hpa: &HorizontalPodAutoscaler, context: &Context) -> bool {
    hpa.metadata.deletion_timestamp.is_none()
        && matches!(verdict(key, hpa, context), HpaAcceptance::Accepted(_))
}

/// Whether it was woken: not if it is awake already or gone, or somebody else put it to zero.
async fn wake((namespace, of): &Target, context: &Context) -> Result<bool, ReconcileError> {
    let known = match context.scales.known(namespace, of) {
        Some(scale) => Ok(scale),
        None => context.scales.read(namespace, of).await,
    };
    let scale = match known {
        Err(ScaleError::NotFound(_)) => return Ok(false),
        known => known?,
    };
    if scale.replicas > 0 || scale.writer == Writer::Other || is_going(namespace, context).await? {
        return Ok(false);
    }
    match context.scales.write(namespace, of, 1, Some(&scale.resource_version)).await {
        Ok(()) => Ok(true),
        Err(ScaleError::NotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the namespace is being deleted, or is gone.
async fn is_going(namespace: &str, context: &Context) -> Result<bool, ReconcileError> {
    let known = Api::<Namespace>::all(context.client.clone()).get_metadata_opt(namespace).await?;
    Ok(known.is_none_or(|known| known.metadata.deletion_timestamp.is_some()))
}
