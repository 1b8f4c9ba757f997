//! The cluster's EndpointSlices, by the Service they belong to.
//!
//! Filled by one watch over all namespaces. The reconcilers read one Service at a time, so a scan
//! over all slices would grow with the square of the cluster. Slices that the zero-scaler wrote are
//! also indexed by workload, because a workload may have moved to another Service.

use std::collections::HashMap;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::contract::{SLICE_MANAGER, WORKLOAD_LABEL};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::Event;
use parking_lot::{Mutex, MutexGuard};

/// Label of a slice with the name of its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice with its manager.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Namespace and name of a Service.
pub type ServiceName = (String, String);

#[derive(Debug, Default)]
struct Slices {
    /// Slices of each Service, sorted by name. Almost always one or two.
    by_service: HashMap<ServiceName, Vec<Arc<EndpointSlice>>>,
    /// The Services for which the zero-scaler wrote slices of a workload. Almost always one.
    services: HashMap<Key, Vec<String>>,
}

/// All slices.
#[derive(Debug, Default)]
pub struct SliceIndex {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    current: Slices,
    /// Filled during a new list, and replaces `current` when the list is complete.
    listing: Slices,
}

// === impl SliceIndex ===

impl SliceIndex {
    /// The slices of one Service, by name.
    pub fn of(&self, namespace: &str, service: &str) -> Vec<Arc<EndpointSlice>> {
        let name = (namespace.to_owned(), service.to_owned());
        self.lock().current.by_service.get(&name).cloned().unwrap_or_default()
    }

    /// The Services for which the zero-scaler wrote slices of a workload.
    pub fn services_with_slices_of(&self, workload: &Key) -> Vec<String> {
        self.lock().current.services.get(workload).cloned().unwrap_or_default()
    }

    /// Applies a watch event.
    pub fn apply(&self, event: &Event<EndpointSlice>) {
        let mut inner = self.lock();
        match event {
            Event::Init => inner.listing = Slices::default(),
            Event::InitApply(slice) => inner.listing.insert(slice),
            Event::InitDone => inner.current = std::mem::take(&mut inner.listing),
            Event::Apply(slice) => inner.current.insert(slice),
            Event::Delete(slice) => inner.current.remove(slice),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// The Service a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> Option<ServiceName> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some((slice.metadata.namespace.clone()?, service.clone()))
}

/// Whether the zero-scaler wrote a slice.
pub fn is_ours(slice: &EndpointSlice) -> bool {
    let labels = slice.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|manager| manager == SLICE_MANAGER)
}

/// The workload for which the zero-scaler wrote a slice.
pub fn workload_of(slice: &EndpointSlice) -> Option<Key> {
    let workload = slice.metadata.labels.as_ref()?.get(WORKLOAD_LABEL).filter(|_| is_ours(slice))?;
    Some(Key::new(slice.metadata.namespace.as_deref()?, workload))
}

// === impl Slices ===

impl Slices {
    fn insert(&mut self, slice: &EndpointSlice) {
        let Some(service) = service_of(slice) else { return };
        // The previous version may belong to another workload.
        self.remove(slice);
        if let Some(workload) = workload_of(slice) {
            let services = self.services.entry(workload).or_default();
            if !services.contains(&service.1) {
                services.reserve_exact(1);
                services.push(service.1.clone());
            }
        }
        let of_service = self.by_service.entry(service).or_default();
        let place = of_service.partition_point(|other| other.metadata.name < slice.metadata.name);
        of_service.reserve_exact(1);
        of_service.insert(place, Arc::new(slice.clone()));
    }

    fn remove(&mut self, slice: &EndpointSlice) {
        let Some(service) = service_of(slice) else { return };
        let Some(of_service) = self.by_service.get_mut(&service) else { return };
        let Some(place) = of_service.iter().position(|other| other.metadata.name == slice.metadata.name)
        else {
            return;
        };
        let workload = workload_of(&of_service.remove(place));
        let still = workload.is_some() && of_service.iter().any(|other| workload_of(other) == workload);
        if of_service.is_empty() {
            self.by_service.remove(&service);
        }
        if let Some(workload) = workload.filter(|_| !still) {
            self.leaves(&workload, &service.1);
        }
    }

    fn leaves(&mut self, workload: &Key, service: &str) {
        let Some(services) = self.services.get_mut(workload) else { return };
        services.retain(|other| other != service);
        if services.is_empty() {
            self.services.remove(workload);
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
    fn finds_slices_by_service_and_replaces_them_by_new_list() {
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

    #[test]
    fn finds_previous_services_of_a_workload() {
        let written = |name: &str, service: &str, workload: &str| {
            let mut slice = slice(name, service);
            let labels = slice.metadata.labels.get_or_insert_default();
            labels.insert(MANAGED_BY.into(), SLICE_MANAGER.into());
            labels.insert(WORKLOAD_LABEL.into(), workload.into());
            slice
        };
        let (index, web) = (SliceIndex::default(), Key::new("shop", "web"));
        for (name, service) in [("old-4", "old"), ("old-6", "old"), ("new-4", "new")] {
            index.apply(&Event::Apply(written(name, service, "web")));
        }
        index.apply(&Event::Apply(slice("theirs", "other")));
        assert_eq!(index.services_with_slices_of(&web), ["old", "new"]);
        index.apply(&Event::Delete(written("old-4", "old", "web")));
        assert_eq!(index.services_with_slices_of(&web), ["old", "new"]);
        // Another workload gets the slice.
        index.apply(&Event::Apply(written("old-6", "old", "api")));
        assert_eq!(
            (index.services_with_slices_of(&web), index.services_with_slices_of(&Key::new("shop", "api"))),
            (vec!["new".to_owned()], vec!["old".to_owned()])
        );
        index.apply(&Event::Delete(written("new-4", "new", "web")));
        assert!(index.lock().current.services.len() == 1 && index.services_with_slices_of(&web).is_empty());
    }
}
