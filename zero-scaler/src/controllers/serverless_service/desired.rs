//! The desired endpoints of a Service. Pure: an observation and the listening activators in,
//! objects out.
//!
//! One slice for each address family, so that a change of mode is one write, which every node sees
//! as a whole. Only more than a thousand endpoints, the API's limit, need a second slice, and pods
//! that have different numbers for a named port, which the sidecar's is.
//!
//! The slices of a managed Service have the manager label of Kubernetes' own. Its controller skips
//! slices of a Service without a selector. Once the Service has one, it writes its own slices and
//! deletes those that do not belong to the Service, in this order. So a Service that gets its
//! selector back is served by Kubernetes alone, even if no part of Rouse is left. Attached, slices
//! of Rouse are beside those of Kubernetes, and need another manager. A slice is not changed from
//! one manager to the other, as Kubernetes may be about to delete it: the names differ.
//!
//! Ports of other protocols than TCP are in slices of their own, which lead to the pods in both
//! modes: no activator serves them, and without these slices they would have no endpoint.

use std::collections::{BTreeMap, BTreeSet};

use autoscaler::api::{PortLease, SksMode};
use autoscaler::contract::selector::Selector;
use autoscaler::contract::short_name::workload_label;
use autoscaler::contract::{
    KUBERNETES_SLICE_MANAGER, MANAGED_SLICE, QUEUE_PROXY_PORT, SLICE_MANAGED_BY, SLICE_MANAGER,
    SLICE_SERVICE, WORKLOAD_LABEL,
};
use autoscaler::findings::service::ServiceFields;
use autoscaler::routing::sks_mode;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use kube::Resource;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::observe::ObservedService;
use super::teardown::leaves_activators_out;
use crate::cache::service::{has_pod_targets, topology_annotations};
use crate::kubernetes::server_side_apply::owner;
use crate::pods::endpoints::{PodEndpoint, is_ready, routable_ports};
use crate::pods::private_ports::{number_on_pod, private_ports, sidecar_port};
use crate::pods::topology::hints_of_activator;

/// The API's limit for one slice.
const MOST_ENDPOINTS: usize = 1000;

/// Endpoints with the same port numbers.
type PortGroup = (Vec<EndpointPort>, Vec<Endpoint>);

/// Where requests go: to pods or to activators.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServingPath {
    /// The mode that the endpoints can have.
    pub(super) mode: SksMode,
    /// The activators in the path; none in Serve mode.
    pub(super) activators: Vec<PodEndpoint>,
    /// The ports on which they listen.
    pub(super) ports: Vec<PortLease>,
}

// === impl ServingPath ===

impl ServingPath {
    /// The path, given the activators that listen on all ports.
    pub(super) fn new(observed: &ObservedService, listening: Vec<PodEndpoint>) -> Self {
        let pods_alone = Self { mode: SksMode::Serve, activators: Vec::new(), ports: Vec::new() };
        if leaves_activators_out(observed) {
            return pods_alone;
        }
        let wanted = match observed.sks.spec.mode {
            SksMode::Proxy if observed.may_proxy() => SksMode::Proxy,
            SksMode::Proxy | SksMode::Serve => SksMode::Serve,
        };
        let (activators, ports) =
            if listening.is_empty() { last_resort(observed) } else { (listening, observed.ports.clone()) };
        let count = u32::try_from(activators.len()).unwrap_or(u32::MAX);
        match sks_mode::in_force(wanted, observed.ready_pods(), count) {
            SksMode::Proxy => Self { mode: SksMode::Proxy, activators, ports },
            SksMode::Serve => pods_alone,
        }
    }
}

/// Without ready pods and verified activators, the activators in the endpoints stay there while
/// they are ready, with their ports. Their probes succeeded before, perhaps in an earlier process,
/// and an empty Service would be worse.
fn last_resort(observed: &ObservedService) -> (Vec<PodEndpoint>, Vec<PortLease>) {
    if observed.ready_pods() > 0 {
        return Default::default();
    }
    let slices = || observed.slices.iter();
    let numbers: BTreeSet<i32> =
        slices().flat_map(|s| s.ports.iter().flatten()).filter_map(|port| port.port).collect();
    let proven = |lease: &&PortLease| numbers.contains(&i32::from(lease.activator_port));
    let ports: Vec<PortLease> = observed.ports.iter().filter(proven).cloned().collect();
    if ports.is_empty() {
        return Default::default();
    }
    let in_path: BTreeSet<&String> =
        slices().flat_map(|s| s.endpoints.iter().flatten()).flat_map(|e| &e.addresses).collect();
    let stays = |activator: &&PodEndpoint| activator.endpoint.addresses.iter().any(|a| in_path.contains(a));
    (observed.activators.iter().filter(stays).cloned().collect(), ports)
}

/// The desired slices. Others of ours are deleted.
pub(super) fn slices(observed: &ObservedService, path: &ServingPath) -> Vec<EndpointSlice> {
    let families = families(&observed.service);
    let routed = families.iter().flat_map(|family| of_family(observed, path, family));
    routed.chain(families.iter().flat_map(|family| direct_slices(observed, family))).collect()
}

/// The pods of a managed Service at its ports of other protocols than TCP.
fn direct_slices(observed: &ObservedService, family: &str) -> Vec<EndpointSlice> {
    let ports: Vec<ServicePort> = ServiceFields::of(&observed.service).direct_ports().cloned().collect();
    if ports.is_empty() || !observed.managed {
        return Vec::new();
    }
    let on_pod = |slice: &[EndpointPort]| {
        let port = |port: &ServicePort| {
            let name = port.name.clone().unwrap_or_default();
            let number = number_on_pod(port, slice)?;
            Some(EndpointPort {
                protocol: port.protocol.clone(),
                ..endpoint_port(name, number, port.app_protocol.clone())
            })
        };
        ports.iter().filter_map(port).collect()
    };
    let groups = pod_groups(observed, family, on_pod);
    slices_of_groups(observed, &format!("rouse-managed-direct-{}", family.to_lowercase()), family, groups)
}

fn of_family(observed: &ObservedService, path: &ServingPath, family: &str) -> Vec<EndpointSlice> {
    let of = |endpoints: &[PodEndpoint]| -> Vec<Endpoint> {
        endpoints.iter().filter(|e| e.family == family).map(|e| e.endpoint.clone()).collect()
    };
    // A mesh that finds the pod sends to the Service's targetPort on it, and an activator listens
    // on the leased port alone.
    let names_pods = has_pod_targets(&observed.service);
    let mut activators = of(&path.activators);
    for activator in &mut activators {
        activator.hints = hints_of_activator(&observed.service, activator);
        activator.target_ref = activator.target_ref.take().filter(|_| names_pods);
    }
    let groups = if !activators.is_empty() {
        vec![(activator_ports(observed, &path.ports), activators)]
    } else if !observed.managed {
        Vec::new()
    } else {
        pod_groups(observed, family, |slice| pod_ports(observed, slice))
    };
    let prefix = if observed.managed { "rouse-managed" } else { "rouse" };
    slices_of_groups(observed, &format!("{prefix}-{}", family.to_lowercase()), family, groups)
}

/// The pods by the numbers of their ports. The first group has a ready pod if there is one: slices
/// are written in their order, and the Service has a ready endpoint after each write.
fn pod_groups(
    observed: &ObservedService,
    family: &str,
    ports_on: impl Fn(&[EndpointPort]) -> Vec<EndpointPort>,
) -> Vec<PortGroup> {
    let mut groups: Vec<PortGroup> = Vec::new();
    for pod in observed.pods.iter().filter(|pod| pod.family == family) {
        let (ports, endpoint) = (ports_on(&pod.ports), pod.endpoint.clone());
        match groups.iter_mut().find(|(of_group, _)| *of_group == ports) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => groups.push((ports, vec![endpoint])),
        }
    }
    if groups.is_empty() {
        groups.push((ports_on(&[]), Vec::new()));
    }
    groups.sort_by_key(|(_, endpoints)| !endpoints.iter().any(is_ready));
    groups
}

fn slices_of_groups(
    observed: &ObservedService,
    suffix: &str,
    family: &str,
    groups: Vec<PortGroup>,
) -> Vec<EndpointSlice> {
    let chunks = groups.into_iter().flat_map(|(ports, endpoints)| {
        chunked(endpoints).into_iter().map(move |endpoints| (ports.clone(), endpoints))
    });
    let name = |i| match i {
        0 => format!("{}-{suffix}", observed.sks.spec.service),
        i => format!("{}-{suffix}-{i}", observed.sks.spec.service),
    };
    chunks
        .enumerate()
        .map(|(i, (ports, endpoints))| EndpointSlice {
            metadata: metadata(observed, name(i)),
            address_type: family.to_owned(),
            endpoints: Some(endpoints),
            ports: Some(ports),
        })
        .collect()
}

/// At least one chunk. Ready endpoints are first, so that the first slice has them.
fn chunked(mut endpoints: Vec<Endpoint>) -> Vec<Vec<Endpoint>> {
    endpoints.sort_by_key(|e| (!is_ready(e), e.addresses.first().cloned()));
    let mut chunks: Vec<Vec<Endpoint>> = endpoints.chunks(MOST_ENDPOINTS).map(<[Endpoint]>::to_vec).collect();
    if chunks.is_empty() {
        chunks.push(Vec::new());
    }
    chunks
}

/// The Service's port names with the activators' numbers.
fn activator_ports(observed: &ObservedService, leases: &[PortLease]) -> Vec<EndpointPort> {
    let of_lease = |lease: &PortLease| {
        let mut ports = routable_ports(&observed.service);
        let port = ports.find(|port| port.port == i32::from(lease.service_port));
        endpoint_port(
            lease.name.clone(),
            lease.activator_port,
            port.and_then(|port| port.app_protocol.clone()),
        )
    };
    leases.iter().map(of_lease).collect()
}

/// The same with the port numbers on the pods of a slice of the private Service: the sidecar's
/// ports, or the app's. A port that these pods do not have is left out.
fn pod_ports(observed: &ObservedService, slice: &[EndpointPort]) -> Vec<EndpointPort> {
    let number = |port: &ServicePort| match observed.has_sidecar() {
        true => Some(sidecar_port(slice).unwrap_or(QUEUE_PROXY_PORT)),
        false => number_on_pod(port, slice),
    };
    let ports = routable_ports(&observed.service).filter_map(|port| {
        let name = port.name.clone().unwrap_or_default();
        Some(endpoint_port(name, number(port)?, port.app_protocol.clone()))
    });
    ports.collect()
}

fn endpoint_port(name: String, number: u16, app_protocol: Option<String>) -> EndpointPort {
    EndpointPort {
        name: Some(name),
        port: Some(i32::from(number)),
        protocol: Some("TCP".to_owned()),
        app_protocol,
    }
}

fn metadata(observed: &ObservedService, name: String) -> ObjectMeta {
    let workload = workload_label(&observed.key.name);
    let manager = if observed.managed { KUBERNETES_SLICE_MANAGER } else { SLICE_MANAGER };
    let labels = [
        (SLICE_SERVICE, observed.sks.spec.service.as_str()),
        (SLICE_MANAGED_BY, manager),
        (WORKLOAD_LABEL, workload.as_str()),
    ];
    let managed = observed.managed.then_some((MANAGED_SLICE, "true"));
    ObjectMeta {
        name: Some(name),
        namespace: Some(observed.key.namespace.clone()),
        labels: Some(labels.into_iter().chain(managed).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()),
        owner_references: Some(vec![owner(&observed.sks)]),
        ..ObjectMeta::default()
    }
}

fn families(service: &Service) -> Vec<String> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    if families.is_empty() { vec!["IPv4".to_owned()] } else { families }
}

/// Whether a slice has the desired endpoints, ports, labels and owners. Fields filled in by
/// Kubernetes do not count.
pub(super) fn is_as_desired(existing: &EndpointSlice, desired: &EndpointSlice) -> bool {
    let labels = |slice: &EndpointSlice| slice.metadata.labels.clone().unwrap_or_default();
    let owners = |slice: &EndpointSlice| slice.metadata.owner_references.clone().unwrap_or_default();
    let (existing_labels, existing_owners) = (labels(existing), owners(existing));
    existing.endpoints.clone().unwrap_or_default() == desired.endpoints.clone().unwrap_or_default()
        && existing.ports.clone().unwrap_or_default() == desired.ports.clone().unwrap_or_default()
        && labels(desired).iter().all(|(k, v)| existing_labels.get(k) == Some(v))
        && owners(desired).iter().all(|owner| existing_owners.contains(owner))
}

/// The Service that selects the pods. Headless, because only its slices are read. Kubernetes
/// computes the hints of their endpoints from the fields for topology.
pub(super) fn private_service(observed: &ObservedService) -> Option<Value> {
    let name = observed.private.as_deref()?;
    let selector: BTreeMap<String, String> =
        Selector::parse(&observed.sks.spec.selector).ok()?.as_labels()?;
    let public = observed.service.spec.as_ref();
    let mut private = json!({
        "apiVersion": Service::api_version(&()),
        "kind": Service::kind(&()),
        "metadata": {
            "name": name,
            "namespace": observed.key.namespace,
            "labels": {WORKLOAD_LABEL: workload_label(&observed.key.name)},
            "ownerReferences": [owner(&observed.sks)],
        },
        "spec": {
            "clusterIP": "None",
            "ipFamilies": public.and_then(|s| s.ip_families.clone()).unwrap_or_else(|| families(&observed.service)),
            "ipFamilyPolicy": public.and_then(|s| s.ip_family_policy.clone()).unwrap_or_else(|| "SingleStack".to_owned()),
            "selector": selector,
            "ports": private_ports(&observed.service, observed.sks.spec.sidecar),
        },
    });
    let annotations = topology_annotations(&observed.service);
    if !annotations.is_empty() {
        set(&mut private, "/metadata", "annotations", json!(annotations));
    }
    if let Some(distribution) = public.and_then(|spec| spec.traffic_distribution.as_ref()) {
        set(&mut private, "/spec", "trafficDistribution", json!(distribution));
    }
    Some(private)
}

/// Sets a field that is left out if it has no value: server-side apply would own a null.
fn set(object: &mut Value, part: &str, field: &str, value: Value) {
    if let Some(part) = object.pointer_mut(part).and_then(Value::as_object_mut) {
        part.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
#[path = "desired_tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "recorded_slices_tests.rs"]
mod recorded_slices_tests;
