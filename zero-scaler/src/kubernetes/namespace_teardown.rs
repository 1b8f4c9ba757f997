//! Teardown of the installation: scales all workloads from zero when its namespace is deleted, and
//! returns their Services to Kubernetes.
//!
//! Without activators, no component holds requests. Kubernetes sets the deletion timestamp before
//! it deletes the namespace's objects, pods have a grace period, and the account's token stays
//! valid for some seconds. That is enough time to scale all workloads at zero. From the timestamp
//! on, no activator counts as ready, no workload is scaled to zero, and Services get pod endpoints
//! and a selector as soon as pods exist. An installation that is removed in another way has no such
//! warning: see docs/howto/operate/uninstall.md.

use component_base::kubernetes::watch_object;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use crate::kubernetes::rate_limit::UrgentClient;

/// Calls `on_deletion` once, when the namespace has a deletion timestamp. Never ends.
pub(crate) async fn follow(client: UrgentClient, namespace: String, on_deletion: impl Fn() + Send) {
    let objects = watch_object(Api::<Namespace>::all(client.without_rate_limit().clone()), &namespace);
    pin_mut!(objects);
    let mut deleted = false;
    while let Some(object) = objects.next().await {
        if object.is_some_and(|object| object.metadata.deletion_timestamp.is_some()) && !deleted {
            tracing::warn!(%namespace, "installation namespace is being deleted, scaling all workloads from zero");
            deleted = true;
            on_deletion();
        }
    }
}
