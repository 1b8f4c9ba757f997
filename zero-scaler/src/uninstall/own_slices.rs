//! Waits until requests of restored Services no longer need EndpointSlices of Rouse.
//!
//! Kubernetes deletes the slices of Rouse when it has written its own for a Service that got a
//! selector, and the zero-scaler those beside them. Slices of a Service without ready pods do not
//! count: no request would be served.

use std::collections::BTreeSet;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::{MANAGED_SLICE, SLICE_MANAGED_BY, SLICE_MANAGER, SLICE_SERVICE};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use crate::uninstall::error::UninstallError;
use crate::uninstall::service_restoration::RestoredService;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until no slice of Rouse is left of a restored Service with ready pods.
///
/// # Errors
/// At the deadline, and when the API server refuses a list.
pub async fn until_none_serves(
    client: &Client,
    restored: &[RestoredService],
    deadline: Instant,
) -> Result<(), UninstallError> {
    let serving: BTreeSet<&Key> = restored.iter().filter(|s| s.has_ready_pods).map(|s| &s.key).collect();
    loop {
        let left: Vec<String> = services(client)
            .await?
            .into_iter()
            .filter(|service| serving.contains(service))
            .map(|service| service.to_string())
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(UninstallError::StillServing(left.join(", ")));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The Services that have a slice of Rouse.
async fn services(client: &Client) -> Result<BTreeSet<Key>, UninstallError> {
    let attached = format!("{SLICE_MANAGED_BY}={SLICE_MANAGER}");
    let managed = format!("{MANAGED_SLICE}=true");
    let mut services = BTreeSet::new();
    for ours in [managed, attached] {
        let ours = ListParams::default().labels(&ours);
        let slices = Api::<EndpointSlice>::all(client.clone()).list_metadata(&ours).await;
        let slices = slices.map_err(UninstallError::api("list EndpointSlices"))?.items;
        services.extend(
            slices.iter().filter_map(|s| Some(Key::new(s.namespace()?, s.labels().get(SLICE_SERVICE)?))),
        );
    }
    Ok(services)
}
