//! The cluster's EndpointSlices, by the Service they belong to.
//!
//! Filled by one watch over all namespaces. The reconcilers read one Service at a time, so a scan
//! over all slices would grow with the square of the cluster. Slices that the zero-scaler wrote are
//! also indexed by workload, because a workload may have moved to another Service. The leased ports
//! in them are counted: a port is not leased again while a slice leads to it. A slice that can no
//! longer be decoded stays as it was last decoded.

use std::collections::HashMap;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::contract::{
    LEASED_PORTS, MANAGED_SLICE, SLICE_MANAGED_BY, SLICE_MANAGER, SLICE_SERVICE, WORKLOAD_LABEL,
};
use component_base::kubernetes::Decoded;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;

use crate::kubernetes::server_side_apply::controller_of;

/// Namespace and name of a Service.
pub type ServiceName = (String, String);

#[derive(Debug, Default)]
struct Slices {
    /// Slices of each Service, sorted by name. Almost always one or two.
    by_service: HashMap<ServiceName, Vec<Arc<EndpointSlice>>>,
    /// The Services for which the zero-scaler wrote slices of a workload. Almost always one.
    services: HashMap<Key, Vec<String>>,
    /// The number of our slices that lead to each leased port.
    leased_ports: HashMap<u16, u32>,
}

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
        self.inner.lock().current.by_service.get(&name).cloned().unwrap_or_default()
    }

    /// The Services for which the zero-scaler wrote slices of a workload.
    pub fn services_with_slices_of(&self, workload: &Key) -> Vec<String> {
        self.inner.lock().current.services.get(workload).cloned().unwrap_or_default()
    }

    /// Whether a slice of ours leads to this leased port, other than for this workload.
    pub fn leads_to(&self, port: u16, other_than: &Key) -> bool {
        let current = &self.inner.lock().current;
        let all = current.leased_ports.get(&port).copied().unwrap_or_default();
        all > 0 && all > current.slices_leading_to(port, other_than)
    }

    /// Applies a watch event. Returns the leased ports to which no slice of ours leads any more.
    pub fn apply(&self, event: &Event<Decoded<EndpointSlice>>) -> Vec<u16> {
        let mut inner = self.inner.lock();
        let before: Vec<u16> = match event {
            Event::Init | Event::InitApply(_) => Vec::new(),
            Event::InitDone => inner.current.leased_ports.keys().copied().collect(),
            Event::Apply(slice) | Event::Delete(slice) => inner.current.leased_ports_of(slice.meta()),
        };
        match event {
            Event::Init => inner.listing = Slices::default(),
            Event::InitApply(slice) => {
                if let Some(newest) = inner.current.newest(slice) {
                    inner.listing.insert(newest);
                }
            }
            Event::InitDone => inner.current = std::mem::take(&mut inner.listing),
            Event::Apply(slice) => {
                if let Some(newest) = inner.current.newest(slice) {
                    inner.current.insert(newest);
                }
            }
            Event::Delete(slice) => inner.current.remove(slice.meta()),
        }
        before.into_iter().filter(|port| !inner.current.leased_ports.contains_key(port)).collect()
    }
}

/// The Service a slice belongs to.
pub fn service_of(slice: &ObjectMeta) -> Option<ServiceName> {
    let service = slice.labels.as_ref()?.get(SLICE_SERVICE)?;
    Some((slice.namespace.clone()?, service.clone()))
}

/// Whether the zero-scaler wrote a slice. A slice of Kubernetes has the label of a managed slice if
/// its Service has it, and belongs to that Service.
pub fn is_ours(slice: &EndpointSlice) -> bool {
    let Some(labels) = &slice.metadata.labels else { return false };
    let is_of_service = || controller_of(slice).is_some_and(|owner| owner.kind == "Service");
    labels.get(SLICE_MANAGED_BY).is_some_and(|manager| manager == SLICE_MANAGER)
        || labels.contains_key(MANAGED_SLICE) && !is_of_service()
}

/// The leased ports to which a slice of ours leads.
fn leased_ports(slice: &EndpointSlice) -> impl Iterator<Item = u16> {
    let ports = slice.ports.iter().flatten().filter(|_| is_ours(slice));
    ports.filter_map(|port| u16::try_from(port.port?).ok()).filter(|port| LEASED_PORTS.contains(port))
}

/// The workload for which the zero-scaler wrote a slice: the name of its owner. A deletion with
/// `--cascade=orphan` leaves the label alone, which has the whole name unless that is too long.
pub fn workload_of(slice: &EndpointSlice) -> Option<Key> {
    let meta = Some(&slice.metadata).filter(|_| is_ours(slice))?;
    let label = || meta.labels.as_ref()?.get(WORKLOAD_LABEL);
    let workload = controller_of(slice).map(|owner| &owner.name).or_else(label)?;
    Some(Key::new(meta.namespace.as_deref()?, workload))
}

// === impl Slices ===

impl Slices {
    fn insert(&mut self, slice: Arc<EndpointSlice>) {
        let Some(service) = service_of(&slice.metadata) else { return };
        // The previous version may belong to another workload.
        self.remove(&slice.metadata);
        if let Some(workload) = workload_of(&slice) {
            let services = self.services.entry(workload).or_default();
            if !services.contains(&service.1) {
                services.reserve_exact(1);
                services.push(service.1.clone());
            }
        }
        for port in leased_ports(&slice) {
            *self.leased_ports.entry(port).or_default() += 1;
        }
        let of_service = self.by_service.entry(service).or_default();
        let place = of_service.partition_point(|other| other.metadata.name < slice.metadata.name);
        of_service.reserve_exact(1);
        of_service.insert(place, slice);
    }

    fn remove(&mut self, slice: &ObjectMeta) {
        let Some(service) = service_of(slice) else { return };
        let Some(of_service) = self.by_service.get_mut(&service) else { return };
        let Some(place) = of_service.iter().position(|other| other.metadata.name == slice.name) else {
            return;
        };
        let removed = of_service.remove(place);
        let workload = workload_of(&removed);
        let still = workload.is_some() && of_service.iter().any(|other| workload_of(other) == workload);
        if of_service.is_empty() {
            self.by_service.remove(&service);
        }
        for port in leased_ports(&removed) {
            let left = self.leased_ports.remove(&port).unwrap_or_default().saturating_sub(1);
            if left > 0 {
                self.leased_ports.insert(port, left);
            }
        }
        if let Some(workload) = workload.filter(|_| !still) {
            self.leaves(&workload, &service.1);
        }
    }

    /// The number of slices of a workload that lead to a leased port.
    fn slices_leading_to(&self, port: u16, workload: &Key) -> u32 {
        let services = self.services.get(workload).into_iter().flatten();
        let slices = services
            .filter_map(|service| self.by_service.get(&(workload.namespace.clone(), service.clone())))
            .flatten()
            .filter(|slice| workload_of(slice).as_ref() == Some(workload));
        let leading = slices.flat_map(|slice| leased_ports(slice)).filter(|leads_to| *leads_to == port);
        u32::try_from(leading.count()).unwrap_or(u32::MAX)
    }

    /// The slice; of an undecodable one the last decoded version, if there is one.
    fn newest(&self, slice: &Decoded<EndpointSlice>) -> Option<Arc<EndpointSlice>> {
        match &slice.0 {
            Ok(slice) => Some(slice.clone()),
            Err(undecodable) => self.stored(&undecodable.metadata).cloned(),
        }
    }

    /// The stored version of a slice.
    fn stored(&self, slice: &ObjectMeta) -> Option<&Arc<EndpointSlice>> {
        let of_service = self.by_service.get(&service_of(slice)?)?;
        of_service.iter().find(|other| other.metadata.name == slice.name)
    }

    fn leased_ports_of(&self, slice: &ObjectMeta) -> Vec<u16> {
        self.stored(slice).map(|slice| leased_ports(slice).collect()).unwrap_or_default()
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

    fn slice(name: &str, service: &str) -> Decoded<EndpointSlice> {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {SLICE_SERVICE: service}},
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
            let labels = slice.meta_mut().labels.get_or_insert_default();
            labels.insert(SLICE_MANAGED_BY.into(), SLICE_MANAGER.into());
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
        assert!(
            index.inner.lock().current.services.len() == 1 && index.services_with_slices_of(&web).is_empty()
        );
    }

    /// Kubernetes copies the labels of a Service to its slices.
    #[test]
    fn slice_of_a_service_with_the_label_is_not_ours() {
        let of_owner = |kind: &str, manager: &str, labelled: bool| {
            let mut labels = serde_json::json!({SLICE_MANAGED_BY: manager});
            if labelled {
                labels[MANAGED_SLICE] = "true".into();
            }
            let owner = serde_json::json!({"apiVersion": "v1", "kind": kind, "name": "web", "uid": "1", "controller": true});
            let slice = serde_json::json!({
                "metadata": {"labels": labels, "ownerReferences": [owner]}, "addressType": "IPv4", "endpoints": []});
            is_ours(&serde_json::from_value(slice).unwrap())
        };
        const KUBERNETES: &str = "endpointslice-controller.k8s.io";
        assert!(of_owner("ServerlessService", SLICE_MANAGER, false), "attached, and of earlier versions");
        assert!(of_owner("ServerlessService", KUBERNETES, true));
        assert!(!of_owner("Service", KUBERNETES, true));
        assert!(!of_owner("Service", KUBERNETES, false));
    }

    #[test]
    fn reports_leased_port_when_the_last_slice_leaves_it() {
        let leading = |name: &str, ports: &[u16]| {
            let mut slice = slice(name, "web");
            let labels = slice.meta_mut().labels.get_or_insert_default();
            labels.insert(SLICE_MANAGED_BY.into(), SLICE_MANAGER.into());
            labels.insert(WORKLOAD_LABEL.into(), "web".into());
            let ports: Vec<_> = ports.iter().map(|port| serde_json::json!({"port": port})).collect();
            Arc::make_mut(slice.0.as_mut().unwrap()).ports = serde_json::from_value(ports.into()).unwrap();
            slice
        };
        let (index, none) = (SliceIndex::default(), Vec::<u16>::new());
        assert_eq!(index.apply(&Event::Apply(leading("web-4", &[20_001, 20_002, 8012]))), none);
        assert_eq!(index.apply(&Event::Apply(leading("web-6", &[20_001]))), none);
        let [own, other] = ["web", "api"].map(|name| Key::new("shop", name));
        assert!(index.leads_to(20_001, &other) && !index.leads_to(8012, &other));
        assert!(!index.leads_to(20_001, &own), "its own slices");
        // Slices of other managers do not count.
        let mut foreign = leading("web-x", &[20_003]);
        foreign.meta_mut().labels = slice("web-x", "web").meta().labels.clone();
        index.apply(&Event::Apply(foreign));
        assert!(!index.leads_to(20_003, &other));

        assert_eq!(index.apply(&Event::Apply(leading("web-4", &[20_001]))), [20_002]);
        assert_eq!(index.apply(&Event::Delete(leading("web-4", &[20_001]))), none);
        assert_eq!(index.apply(&Event::Init), none);
        assert_eq!(index.apply(&Event::InitDone), [20_001]);
        assert!(!index.leads_to(20_001, &other));
    }

    #[test]
    fn undecodable_slice_stays_until_it_is_deleted() {
        let bad = |name: &str| -> Decoded<EndpointSlice> {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": name, "namespace": "shop", "labels": {SLICE_SERVICE: "web"}},
                "addressType": "IPv4", "endpoints": 5,
            }))
            .unwrap()
        };
        let index = SliceIndex::default();
        index.apply(&Event::Apply(slice("web-1", "web")));
        index.apply(&Event::Apply(bad("web-1")));
        assert_eq!(index.of("shop", "web").len(), 1);
        index.apply(&Event::Init);
        index.apply(&Event::InitApply(bad("web-1")));
        index.apply(&Event::InitApply(bad("web-2")));
        index.apply(&Event::InitDone);
        assert_eq!(index.of("shop", "web").len(), 1, "one was never decoded");
        index.apply(&Event::Delete(bad("web-1")));
        assert!(index.of("shop", "web").is_empty());
    }
}
