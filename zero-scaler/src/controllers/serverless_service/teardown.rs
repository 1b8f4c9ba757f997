//! Returns Services to Kubernetes while the namespace of the installation is being deleted.
//!
//! Endpoints of a Service without a selector have no writer afterwards: after the next rollout they
//! lead to no pod, or to a pod of another workload. So the Service gets the selector of its pods,
//! as an [uninstallation](crate::uninstall) gives it. From then on Kubernetes writes its endpoints,
//! and deletes the slices of Rouse, also if this process has ended by then.

use std::collections::BTreeMap;
use std::time::Duration;

use autoscaler::contract::MANAGED_SLICE;
use kube::Client;

use super::observe::ObservedService;
use crate::controllers::reconciler::ReconcileError;
use crate::uninstall::service_restoration::restore;

/// Time for the pods of woken workloads, in which the activators that are left hold requests. The
/// token of this process is valid for a few seconds after its account was deleted: for as long as
/// the API server caches its last review, ten seconds at most.
const READY_PODS_WAIT: Duration = Duration::from_secs(3);

/// Restores the Service if it has a ready pod, or if it waited for one long enough. Returns the
/// rest of that wait.
pub(super) async fn release(
    observed: &ObservedService,
    client: &Client,
) -> Result<Option<Duration>, ReconcileError> {
    let Some(deleted_for) = observed.namespace_deleted_for.filter(|_| !observed.ports.is_empty()) else {
        return Ok(None);
    };
    let left = READY_PODS_WAIT.saturating_sub(deleted_for);
    if observed.ready_pods() == 0 && !left.is_zero() {
        return Ok(Some(left));
    }
    restore(client, &observed.sks).await?;
    Ok(None)
}

/// Whether the Service got its selector, and still has the slices from before.
pub(super) fn was_released(observed: &ObservedService) -> bool {
    let is_managed = |labels: &BTreeMap<String, String>| labels.contains_key(MANAGED_SLICE);
    observed.namespace_deleted_for.is_some()
        && !observed.managed
        && observed.slices.iter().any(|slice| slice.metadata.labels.as_ref().is_some_and(is_managed))
}

/// Whether a slice with activators would outlive the process that can delete it: nothing else
/// deletes one of a Service with a selector.
pub(super) fn leaves_activators_out(observed: &ObservedService) -> bool {
    !observed.managed && observed.namespace_deleted_for.is_some_and(|time| time >= READY_PODS_WAIT)
}
