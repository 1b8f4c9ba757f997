//! Reconciles one workload: observes it, decides, and writes the result.
//!
//! ```text
//!  observe ─► decide ─► (probe the path, check the wake, decide again) ─► write /scale
//!    ─► rate limit ─► apply Metric and ServerlessService ─► write status
//! ```
//!
//! Input: a PodAutoscaler and the cached state of its workload. Each stage has its file; only
//! `observe`, `wake_check` and `apply` access the cluster.

mod apply;
mod decide;
mod degraded;
mod desired;
mod learning;
mod observe;
mod ready;
mod rival;
mod savings;
mod scale_write;
mod sidecar_evidence;
mod status;
mod summary;
mod wake_check;

use std::sync::Arc;
use std::time::Duration;

use autoscaler::api::{PodAutoscaler, key_of};
use autoscaler::contract::selector::Selector;
use autoscaler::contract::short_name::private_name;
use autoscaler::scaling::pod_start::StartPatience;
use autoscaler::scaling::scale_to_zero::ActivePhase;
use component_base::kubernetes::Decoded;
use kube::runtime::controller::Action;

use crate::activators::path_verification::PathVerification;
use crate::controllers::context::Context;
use crate::controllers::reconciler::{RESYNC, ReconcileError};
use crate::pods::endpoints::is_managed;
use crate::pods::start_watch::WatchedPods;
use crate::scaling::scale_targets::ScaleError;
use crate::scaling::{overrides, size_conflicts};

/// Delay of the retry after a write that conflicted with another writer's.
const CONFLICT_RETRY: Duration = Duration::from_millis(100);
/// Shortest delay before the next reconcile. A period of which nothing is left would otherwise
/// repeat the reconcile without a pause until the clock advances.
const SHORTEST_RECHECK: Duration = Duration::from_millis(10);

/// Reconciles one workload.
///
/// # Errors
/// If the API server rejects a write.
pub async fn reconcile(
    object: Arc<Decoded<PodAutoscaler>>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    let (Ok(autoscaler), Some(key)) = (&object.0, key_of(object.as_ref())) else {
        return Ok(Action::await_change());
    };
    if autoscaler.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if context.scaling.wake.is_waking(&key) {
        return Ok(Action::await_change());
    }
    let mut observed = observe::observe(&key, autoscaler, &context).await;
    observed.metric_failure = degraded::failing_metric(&observed, &context);
    observed.wake_check = wake_check::known(&observed, &context);
    release_former_target(&observed, &context);
    request_private_service(&observed, &context);
    let mut plan = decide::decide(&observed, None);
    let mut verification = PathVerification::default();
    if plan.probe {
        verification = observe::verification(&observed, &context);
    } else {
        context.routing.verifications.cancel(&key);
    }
    if let Some(result) = &verification.result {
        plan = decide::decide(&observed, Some(result.is_ok()));
    }
    if plan.check {
        observed.wake_check = Some(wake_check::check(&observed, &context).await);
        plan = decide::decide(&observed, verification.result.as_ref().map(Result::is_ok));
    }
    let written = apply::scale(&observed, &plan, &context).await;
    watch_pod_start(&observed, &plan, &written, &context);
    let due = apply::DueWrites::new(&observed, &plan, &written, verification.result.as_ref());
    let limit = context.clients.rate_limit.try_acquire(&key, due.limited_requests());
    if limit.is_ok() {
        apply::write_due(&observed, &plan, due, &context).await?;
    }
    if plan.probe && verification.result.is_none() && limit.is_ok() && written.is_ok() {
        // The end of the probes triggers the next reconcile.
        return Ok(Action::await_change());
    }
    let polled = if observed.watched { RESYNC } else { observe::POLL_EVERY };
    // After a failed probe, the time of the next probe replaces the plan's time.
    let recheck =
        if matches!(verification.result, Some(Err(_))) { verification.retry_after } else { plan.recheck };
    let next = [
        recheck,
        limit.err(),
        observed.rival.as_ref().map(|_| size_conflicts::YIELD),
        context.scaling.wake_checks.retry_after(&key),
        observed.metric_failure.as_ref().and_then(|failure| failure.as_ref().err().copied()),
        learning::recheck(&observed),
        observed.until_change(),
    ];
    let next = next.into_iter().flatten().fold(polled, Duration::min).max(SHORTEST_RECHECK);
    Ok(Action::requeue(match written? {
        scale_write::ScaleWriteResult::Conflict => CONFLICT_RETRY,
        scale_write::ScaleWriteResult::Delayed => overrides::REWRITE_INTERVAL,
        scale_write::ScaleWriteResult::NotNeeded | scale_write::ScaleWriteResult::Written(_) => next,
    }))
}

/// The target that the ServerlessService still has from before a change may be at zero.
fn release_former_target(observed: &observe::ObservedWorkload, context: &Context) {
    let before = observed.serverless_service.as_ref().and_then(|sks| sks.spec.wake_target.as_ref());
    let target = &observed.autoscaler.spec.scale_target_ref;
    if let Some(former) = before.filter(|former| !former.is_same_object(target)) {
        context.cache.abandoned_targets.add(&observed.key.namespace, former);
    }
}

/// The ServerlessService writes the private Service of a workload that left zero, and a size is no
/// event for it. A write that was refused is retried after its backoff.
fn request_private_service(observed: &observe::ObservedWorkload, context: &Context) {
    let has_pods = observed.scale.as_ref().is_ok_and(|scale| scale.replicas > 0);
    let service = observed.service.as_deref().filter(|service| has_pods && is_managed(service));
    let private = service.and_then(|service| service.metadata.name.as_deref()).map(private_name);
    if private.is_some_and(|name| context.cache.service(&observed.key.namespace, &name).is_none()) {
        context.queues.serverless_services.enqueue_for_status(observed.key.clone());
    }
}

/// Watches the pods of a workload that wakes, for failures of their start. A size that is refused
/// is one too: no pod comes.
fn watch_pod_start(
    observed: &observe::ObservedWorkload,
    plan: &decide::Plan,
    written: &Result<scale_write::ScaleWriteResult, ScaleError>,
    context: &Context,
) {
    let is_waking = plan.activation.phase == ActivePhase::Activating && observed.ready == 0;
    let has_pods = observed.scale.as_ref().is_ok_and(|scale| scale.replicas > 0);
    let refused_size = ready::failed_write(observed, plan, written).map(|problem| problem.message);
    let is_expected = has_pods || refused_size.is_some();
    match observed.target_selector().filter(|_| is_waking && is_expected) {
        Some(target) => {
            let selection = observed.pod_selection();
            let reported = observe::reported_failure(observed.serverless_service.as_ref());
            let target_ref = &observed.autoscaler.spec.scale_target_ref;
            let pods = WatchedPods {
                target: target_ref.clone(),
                selector: target.to_owned(),
                selected: selection.and_then(|selection| Selector::parse(&selection.selector).ok()),
                patience: StartPatience::of_settings(&observed.settings),
                sidecar: observed.sidecar_mode,
                refused: refused_size
                    .or_else(|| context.scaling.scales.refused_pods(&observed.key.namespace, target_ref)),
            };
            context.scaling.starts.watch(&observed.key, pods, reported, observed.now);
        }
        None => context.scaling.starts.stop(&observed.key),
    }
}
