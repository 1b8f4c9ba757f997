//! The cluster's EndpointSlices, by the Service they belong to.
//!
//! Fed by one watch over all namespaces. Read by the reconcilers, which ask for one Service at a time, so a scan over
//! everything would grow with the square of the cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::Event;

/// Label by which slices name their Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label by which slices name who writes them.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Namespace and name of a Service.
pub type ServiceName = (String, String);
/// Those of a Service in the order of their names. Almost always one or two.
type Slices = HashMap<ServiceName, Vec<Arc<EndpointSlice>>>;

/// All slices.
#[derive(Debug, Default)]
pub struct SliceIndex {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: Slices,
    /// Filled during a fresh list, which replaces everything at its end.
    listing: Slices,
}

// === impl SliceIndex ===

impl SliceIndex {
    /// The slices of one Service, by name.
    pub fn of(&self, namespace: &str, service: &str) -> Vec<Arc<EndpointSlice>> {
        let name = (namespace.to_owned(), service.to_owned());
        self.lock().known.get(&name).cloned().unwrap_or_default()
    }

    /// Takes in what the watch says.
    pub fn apply(&self, event: &Event<EndpointSlice>) {
        let mut inner = self.lock();
        match event {
            Event::Init => inner.listing.clear(),
            Event::InitApply(slice) => insert(&mut inner.listing, slice),
            Event::InitDone => inner.known = std::mem::take(&mut inner.listing),
            Event::Apply(slice) => insert(&mut inner.known, slice),
            Event::Delete(slice) => remove(&mut inner.known, slice),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Service a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> Option<ServiceName> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some((slice.metadata.namespace.clone()?, service.clone()))
}

fn insert(slices: &mut Slices, slice: &EndpointSlice) {
    let Some(service) = service_of(slice) else { return };
    let of_service = slices.entry(service).or_default();
    of_service.retain(|known| known.metadata.name != slice.metadata.name);
    let place = of_service.partition_point(|known| known.metadata.name < slice.metadata.name);
    of_service.reserve_exact(1);
    of_service.insert(place, Arc::new(slice.clone()));
}

fn remove(slices: &mut Slices, slice: &EndpointSlice) {
    let (Some(service), Some(name)) = (service_of(slice), &slice.metadata.name) else { return };
    if let Some(of_service) = slices.get_mut(&service) {
        of_service.retain(|known| known.metadata.name.as_ref() != Some(name));
        if of_service.is_empty() {
            slices.remove(&service);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(name: &str, service: &str) -> EndpointSlice {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {SERVICE_NAME: service}},
            "addressType": "IPv4", "endpoints": [],
        }))
        .unwrap()
    }

    #[test]
    fn slices_are_found_by_their_service_and_go_with_a_fresh_list() {
        let index = SliceIndex::default();
        index.apply(&Event::Apply(slice("web-1", "web")));
        index.apply(&Event::Apply(slice("web-2", "web")));
        index.apply(&Event::Apply(slice("api-1", "api")));
        assert_eq!(index.of("shop", "web").len(), 2);
        index.apply(&Event::Delete(slice("web-1", "web")));
        assert_eq!(index.of("shop", "web").len(), 1);
        assert!(index.of("other", "web").is_empty());
        index.apply(&Event::Init);
        index.apply(&Event::InitApply(slice("web-3", "web")));
        assert_eq!(index.of("shop", "api").len(), 1);
        index.apply(&Event::InitDone);
        assert!(index.of("shop", "api").is_empty());
        assert_eq!(index.of("shop", "web").len(), 1);
    }
}
