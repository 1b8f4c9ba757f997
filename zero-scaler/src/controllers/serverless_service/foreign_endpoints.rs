//! Endpoints that Rouse did not write.
//!
//! When a managed Service gets a selector, Kubernetes writes its endpoints a moment later. Until
//! then the slices of Rouse stay, so that the Service is never without endpoints. Kubernetes
//! deletes them itself, if the zero-scaler does not.
//!
//! When a Service loses its selector, Kubernetes keeps the EndpointSlices that it wrote, and
//! mirrors the Service's Endpoints into a further slice. It never updates them again, so after the
//! next rollout a part of the requests goes to pods that are gone. They are deleted as soon as a
//! slice of Rouse serves in their place. Those of other managers are kept and reported.

use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::ServerlessService;
use autoscaler::contract::{KUBERNETES_SLICE_MANAGER, SLICE_MANAGED_BY};
use autoscaler::findings::service::foreign_endpoints;
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, ResourceExt};

use super::observe::ObservedService;
use crate::cache::slice_index::{is_ours, workload_of};
use crate::controllers::context::Context;
use crate::kubernetes::server_side_apply::delete_unchanged;
use crate::pods::endpoints::{is_managed, is_ready};

/// Manager of the slices that are copies of Endpoints. It deletes them with the Endpoints.
const MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// Label of the Endpoints of Services with a selector, since Kubernetes 1.33.
const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const ENDPOINTS_CONTROLLER: &str = "endpoint-controller";
/// Field manager of all controllers of Kubernetes.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// The endpoints of others that are left.
#[derive(Debug, Default)]
pub(super) struct ForeignEndpoints {
    /// Slices of other managers.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    /// Whether a user wrote Endpoints, which Kubernetes mirrors into a slice.
    pub(super) user_written: bool,
    /// Why the endpoints of Kubernetes could not be deleted.
    pub(super) error: Option<kube::Error>,
}

// === impl ForeignEndpoints ===

impl ForeignEndpoints {
    /// The message of the condition; `None` if nothing else routes requests of the Service.
    pub(super) fn message(&self, service: &str) -> Option<String> {
        let name = |slice: &Arc<EndpointSlice>| {
            format!("EndpointSlice {:?} of {:?}", slice.name_any(), manager(slice).unwrap_or_default())
        };
        let mut objects: Vec<String> = self.slices.iter().map(name).collect();
        if self.user_written {
            objects.push(format!("Endpoints {service:?}"));
        }
        if !objects.is_empty() {
            return Some(foreign_endpoints(service, &objects.join(" and ")).message());
        }
        let error = self.error.as_ref()?;
        Some(format!(
            "EndpointSlices and Endpoints from before Service {service:?} lost its selector could not be deleted: \
             {error}; apply the ClusterRole rouse-zero-scaler of this version, or delete them"
        ))
    }
}

/// Whether a Service has a selector, slices of Rouse, and no slice of Kubernetes yet. Kubernetes
/// writes at least one, also for a selector of no pod.
pub(super) fn are_awaited(key: &Key, sks: &ServerlessService, context: &Context) -> bool {
    let name = &sks.spec.service;
    let service = context.cache.service(&key.namespace, name);
    if service.is_none_or(|service| is_managed(&service) || service.metadata.deletion_timestamp.is_some()) {
        return false;
    }
    let slices = context.cache.slices.of(&key.namespace, name);
    slices.iter().any(|slice| workload_of(slice).as_ref() == Some(key))
        && !slices.iter().any(|slice| !is_ours(slice) && manager(slice) == Some(KUBERNETES_SLICE_MANAGER))
}

/// Deletes what Kubernetes left, given the slices that were just written.
pub(super) async fn delete_leftovers(
    observed: &ObservedService,
    written: &[EndpointSlice],
    context: &Context,
) -> ForeignEndpoints {
    let is_leftover = |slice: &&Arc<EndpointSlice>| {
        matches!(manager(slice), Some(KUBERNETES_SLICE_MANAGER | MIRRORING_CONTROLLER))
    };
    let (leftovers, others): (Vec<_>, Vec<_>) = observed.foreign_slices.iter().partition(is_leftover);
    let has_endpoints = |slice: &&Arc<EndpointSlice>| slice.endpoints.iter().flatten().next().is_some();
    let slices = others.into_iter().filter(has_endpoints).cloned().collect();
    if !leftovers.iter().all(|slice| serves(written, &slice.address_type)) {
        return ForeignEndpoints { slices, ..ForeignEndpoints::default() };
    }
    match delete(observed, &leftovers, context).await {
        Ok(user_written) => ForeignEndpoints { slices, user_written, error: None },
        Err(error) => ForeignEndpoints { slices, user_written: false, error: Some(error) },
    }
}

/// Whether one of these slices has a ready endpoint of an address family.
fn serves(written: &[EndpointSlice], family: &str) -> bool {
    let of_family = written.iter().filter(|slice| slice.address_type == family);
    of_family.flat_map(|slice| slice.endpoints.iter().flatten()).any(is_ready)
}

/// Returns whether the Service has Endpoints that a user wrote.
async fn delete(
    observed: &ObservedService,
    leftovers: &[&Arc<EndpointSlice>],
    context: &Context,
) -> Result<bool, kube::Error> {
    if leftovers.is_empty() {
        return Ok(false);
    }
    let client = context.clients.urgent.without_rate_limit();
    // A mirrored slice would be written again for as long as its Endpoints exist.
    for slice in leftovers.iter().filter(|slice| manager(slice) == Some(KUBERNETES_SLICE_MANAGER)) {
        delete_unchanged(client, slice.as_ref()).await?;
    }
    let all = Api::<Endpoints>::namespaced(client.clone(), &observed.key.namespace);
    let Some(endpoints) = all.get_opt(&observed.sks.spec.service).await? else { return Ok(false) };
    if !is_of_kubernetes(&endpoints) {
        return Ok(leftovers.iter().any(|slice| manager(slice) == Some(MIRRORING_CONTROLLER)));
    }
    delete_unchanged(client, &endpoints).await?;
    Ok(false)
}

fn manager(slice: &EndpointSlice) -> Option<&str> {
    slice.labels().get(SLICE_MANAGED_BY).map(String::as_str)
}

/// Whether the endpoints controller of Kubernetes wrote Endpoints.
fn is_of_kubernetes(endpoints: &Endpoints) -> bool {
    if endpoints.labels().get(ENDPOINTS_MANAGED_BY).is_some_and(|manager| manager == ENDPOINTS_CONTROLLER) {
        return true;
    }
    // Before Kubernetes 1.33 only the managed fields name the writer of the addresses.
    let wrote_addresses = |fields: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
        fields.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:subsets").is_some())
    };
    let mut writers = endpoints.managed_fields().iter().filter(wrote_addresses).peekable();
    writers.peek().is_some() && writers.all(|fields| fields.manager.as_deref() == Some(CONTROLLER_MANAGER))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoints(labels: &Value, managers: &[(&str, &str)]) -> Endpoints {
        let fields = |(manager, field): &(&str, &str)| json!({"manager": manager, "fieldsV1": {*field: {}}});
        let managed: Vec<Value> = managers.iter().map(fields).collect();
        serde_json::from_value(json!({"metadata": {"labels": labels, "managedFields": managed}})).unwrap()
    }

    #[test]
    fn endpoints_are_of_kubernetes_by_label_or_by_writer_of_addresses() {
        let controller = ("kube-controller-manager", "f:subsets");
        let (user, labeller) = (("kubectl", "f:subsets"), ("kubectl", "f:metadata"));
        for (labels, managers, expected) in [
            (json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"}), vec![], true),
            (json!({"endpoints.kubernetes.io/managed-by": "mesh"}), vec![user], false),
            (json!({}), vec![controller, labeller], true),
            (json!({}), vec![controller, user], false),
            (json!({}), vec![user], false),
            (json!({}), vec![], false),
        ] {
            assert_eq!(is_of_kubernetes(&endpoints(&labels, &managers)), expected, "{labels} {managers:?}");
        }
    }
}
