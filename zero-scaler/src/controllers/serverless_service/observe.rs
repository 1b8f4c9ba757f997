//! Collects the inputs of one reconcile of a ServerlessService, from caches alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::api::{PortLease, ServerlessService, ServerlessServiceStatus, StartFailure, targets_sidecar};
use autoscaler::contract::selector::Selector;
use autoscaler::contract::short_name::private_name;
use autoscaler::contract::{GROUP, LEASED_PORTS, QUEUE_PROXY, QUEUE_PROXY_PORT, WORKLOAD_LABEL};
use autoscaler::findings::Problem;
use autoscaler::findings::service::{self, ServiceFields};
use autoscaler::routing::port_lease::PortLeaseError;
use autoscaler::settings::SidecarMode;
use autoscaler::{Key, Protocol};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;

use crate::activators::selection::Placement;
use crate::cache::service::has_local_internal_policy;
use crate::cache::slice_index::is_ours;
use crate::clock::now;
use crate::controllers::context::Context;
use crate::controllers::ownership::other_owner_of_service;
use crate::kubernetes::reasons::Reason;
use crate::kubernetes::server_side_apply::controller_of;
use crate::pods::endpoints::{PodEndpoint, is_managed, is_ready, pods, ready, routable_ports};
use crate::pods::private_ports::{is_of_pods_without_sidecar, number_on_pod};
use crate::pods::target_port::{TargetPort, tcp_ports};
use crate::scaling::scale_targets::ScaleAccess;

/// One Service and its possible backends.
#[derive(Debug)]
pub(super) struct ObservedService {
    pub(super) key: Key,
    pub(super) sks: ServerlessService,
    pub(super) service: Arc<Service>,
    /// Whether its endpoints are ours.
    pub(super) managed: bool,
    /// The Service that selects the pods, in managed mode; `None` if its name is taken.
    pub(super) private: Option<String>,
    /// Its existing form.
    pub(super) private_service: Option<Arc<Service>>,
    /// Why its name cannot be used.
    pub(super) private_taken: Option<Problem>,
    /// Whether the target is at zero, and the last pod is gone. `false` if the size is not known.
    pub(super) without_pods: bool,
    /// The leases of its ports that lead to the sidecar.
    pub(super) ports: Vec<PortLease>,
    /// Why not all ports have leases.
    pub(super) unleased: Option<PortLeaseError>,
    /// The pods, ready or not.
    pub(super) pods: Vec<PodEndpoint>,
    /// The slices that we wrote.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    /// The slices of a managed Service that others wrote.
    pub(super) foreign_slices: Vec<Arc<EndpointSlice>>,
    /// The ready activators.
    pub(super) activators: Vec<PodEndpoint>,
    /// Whether all activators are about to be deleted for good.
    pub(super) activators_leaving: bool,
    /// Time since the namespace of the installation was deleted.
    pub(super) namespace_deleted_for: Option<Duration>,
    /// Why no pod starts.
    pub(super) start_failure: Option<StartFailure>,
    /// Service ports with a target other than the sidecar. Attached, they lead past it; managed,
    /// they lead to it all the same, and one with the app behind the sidecar as target is left out.
    pub(super) other_targets: Vec<i32>,
    /// A target port that a ready pod without sidecar does not have.
    pub(super) missing_port: Option<MissingPort>,
    pub(super) now: jiff::Timestamp,
}

/// A target port that is a name, and that no container of a pod has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissingPort {
    pub(super) service_port: i32,
    pub(super) name: String,
    /// The address of the pod.
    pub(super) pod: String,
}

// === impl ObservedService ===

impl ObservedService {
    /// The status as last written.
    pub(super) fn status(&self) -> ServerlessServiceStatus {
        self.sks.status.clone().unwrap_or_default()
    }

    /// Whether activators may be in the path while pods are ready.
    pub(super) fn may_proxy(&self) -> bool {
        !self.activators_leaving && self.unleased.is_none() && !has_local_internal_policy(&self.service)
    }

    pub(super) fn ready_pods(&self) -> u32 {
        ready(&self.pods)
    }

    /// What the selection of activators depends on.
    pub(super) fn placement(&self) -> Placement {
        let is_leased = |port: &EndpointPort| {
            port.port
                .and_then(|port| u16::try_from(port).ok())
                .is_some_and(|port| LEASED_PORTS.contains(&port))
        };
        // The other slices have pods.
        let slices = self.slices.iter().filter(|slice| slice.ports.iter().flatten().any(is_leased));
        let endpoints = slices.flat_map(|slice| slice.endpoints.iter().flatten());
        let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
        Placement {
            current: addresses.filter_map(|address| address.parse().ok()).collect(),
            number: self.sks.spec.num_activators,
            at_zero: self.ready_pods() == 0,
        }
    }

    /// Whether the pods have a sidecar.
    pub(super) fn has_sidecar(&self) -> bool {
        self.sks.spec.sidecar.is_required()
    }
}

pub(super) fn observe(
    key: &Key,
    sks: &ServerlessService,
    context: &Context,
) -> Result<ObservedService, Problem> {
    let service = find(key, sks, context)?;
    let (ports, unleased) = leases(key, sks, &service, context)?;
    let managed = is_managed(&service);
    let private = managed.then(|| private_name(&sks.spec.service));
    let existing = private.as_deref().map_or(Ok(None), |name| own_private_service(key, sks, name, context));
    let (private_service, private_taken) = match existing {
        Ok(existing) => (existing, None),
        Err(taken) => (None, Some(taken)),
    };
    let private = private.filter(|_| private_taken.is_none());
    let slices = &context.cache.slices;
    let listed = private.as_deref().map(|name| slices.of(&key.namespace, name)).unwrap_or_default();
    let has_endpoints =
        listed.iter().any(|slice| slice.endpoints.as_ref().is_some_and(|all| !all.is_empty()));
    let sidecar = sks.spec.sidecar;
    let pods = pods(slices, &key.namespace, &service, private.as_deref(), sidecar);
    let (ours, others) =
        slices.of(&key.namespace, &sks.spec.service).into_iter().partition(|slice| is_ours(slice));
    let with_sidecar = sidecar.is_required();
    let missing_port = if with_sidecar { None } else { missing_port(&service, &pods) };
    Ok(ObservedService {
        key: key.clone(),
        sks: sks.clone(),
        managed,
        private,
        private_service,
        private_taken,
        without_pods: !has_endpoints && is_target_at_zero(key, context),
        ports,
        unleased,
        pods,
        slices: ours,
        foreign_slices: if managed { others } else { Vec::new() },
        start_failure: context
            .scaling
            .starts
            .failure(key, sks.status.as_ref().and_then(|s| s.start_failure.as_ref())),
        activators: context.routing.activators.ready(),
        activators_leaving: context.routing.activators.are_leaving(),
        namespace_deleted_for: context.routing.activators.namespace_deleted_for(),
        other_targets: if with_sidecar {
            other_targets(&service, &app_targets(key, context))
        } else {
            Vec::new()
        },
        missing_port,
        service,
        now: context.clock.now(),
    })
}

fn find(key: &Key, sks: &ServerlessService, context: &Context) -> Result<Arc<Service>, Problem> {
    let name = &sks.spec.service;
    let service = context
        .cache
        .service(&key.namespace, name)
        .filter(|service| service.metadata.deletion_timestamp.is_none())
        .ok_or_else(|| service::not_found(name))?;
    if let Some(holder) = other_owner_of_service(key, name, context) {
        let problem = format!("Service {name:?} belongs to workload {:?}", holder.name);
        let fix = format!(
            "give this workload a Service of its own, delete one of the two, or annotate one with \
             {GROUP}/reachability: Unreachable"
        );
        return Err(Problem::new(Reason::ServiceTaken, problem, fix));
    }
    let has_sidecar = sks.spec.sidecar.is_required();
    if let Some(problem) = ServiceFields::of(&service).unroutable(has_sidecar) {
        return Err(problem);
    }
    let selects_by_equality =
        || Selector::parse(&sks.spec.selector).ok().is_some_and(|it| it.as_labels().is_some());
    if is_managed(&service) && !selects_by_equality() {
        let problem = format!("selector {:?} is not label=value", sks.spec.selector);
        let fix = format!(
            "annotate the HPA or PodAutoscaler with selector, or give Service {name:?} a selector of its own with \
             targetPort: {QUEUE_PROXY}{}",
            if has_sidecar { "" } else { ", and label the pod template for the sidecar" },
        );
        return Err(Problem::new(Reason::SelectorNotEquality, problem, fix));
    }
    Ok(service)
}

/// The existing private Service.
///
/// # Errors
/// If a Service that is not Rouse's has its name: its pods are others, and its fields a user's.
fn own_private_service(
    key: &Key,
    sks: &ServerlessService,
    name: &str,
    context: &Context,
) -> Result<Option<Arc<Service>>, Problem> {
    let Some(private) = context.cache.service(&key.namespace, name) else { return Ok(None) };
    if is_private_service(&private) {
        return Ok(Some(private));
    }
    let service = &sks.spec.service;
    let problem = format!(
        "Service {name:?} is not Rouse's and has the name of the Service that selects the pods of {service:?}, so \
         the pods cannot be found"
    );
    let fix = format!("rename it, or give Service {service:?} a selector with targetPort: {QUEUE_PROXY}");
    Err(Problem::new(Reason::PrivateServiceTaken, problem, fix))
}

/// Whether the zero-scaler wrote a Service: for this workload, or for an earlier owner of the
/// public Service. A deletion with `--cascade=orphan` removes the owner reference and leaves the
/// label.
fn is_private_service(service: &Service) -> bool {
    match controller_of(service) {
        Some(owner) => owner.kind == ServerlessService::kind(&()),
        None => service.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(WORKLOAD_LABEL)),
    }
}

/// The leases of all ports. If some get none, those that the workload has, and the error.
fn leases(
    key: &Key,
    sks: &ServerlessService,
    service: &Service,
    context: &Context,
) -> Result<(Vec<PortLease>, Option<PortLeaseError>), Problem> {
    let ports: Vec<(&ServicePort, u16)> =
        routable_ports(service).filter_map(|port| Some((port, u16::try_from(port.port).ok()?))).collect();
    let wanted: BTreeSet<u16> = ports.iter().map(|(_, number)| *number).collect();
    if wanted.is_empty()
        && let Some(problem) = ServiceFields::of(service).without_port(QUEUE_PROXY_PORT)
    {
        return Err(problem);
    }
    let uid = sks.metadata.uid.as_deref().unwrap_or_default();
    let is_led_to = |port| context.cache.slices.leads_to(port, key);
    let grant = |service_ports| context.cache.leases.grant(key, uid, service_ports, is_led_to, now());
    let (leased, unleased) = match grant(&wanted) {
        Ok(leased) => (leased, None),
        Err(error) => {
            let held = sks.status.iter().flat_map(|status| &status.ports).map(|lease| lease.service_port);
            let held = held.filter(|port| wanted.contains(port)).collect();
            (grant(&held).unwrap_or_default(), Some(error))
        }
    };
    let lease = |(port, service_port): (&ServicePort, u16)| {
        let (pod_port, pod_port_name) = pod_port(port, sks.spec.sidecar)?;
        Some(PortLease {
            name: port.name.clone().unwrap_or_default(),
            service_port,
            activator_port: *leased.get(&service_port)?,
            pod_port,
            pod_port_name,
            protocol: Protocol::of_app_protocol(port.app_protocol.as_deref()),
        })
    };
    Ok((ports.into_iter().filter_map(lease).collect(), unleased))
}

/// Number and name of the port on the pods that a Service port leads to. The number of a named port
/// may differ from pod to pod.
fn pod_port(port: &ServicePort, sidecar: SidecarMode) -> Option<(u16, Option<String>)> {
    if sidecar.is_required() {
        return Some((QUEUE_PROXY_PORT, None));
    }
    Some(match TargetPort::of(port)? {
        TargetPort::Number(number) => (number, None),
        TargetPort::Name(name) => (0, Some(name)),
    })
}

/// The first target port that a ready pod does not have. Slices from before a change of the private
/// Service do not count.
fn missing_port(service: &Service, pods: &[PodEndpoint]) -> Option<MissingPort> {
    let is_current = |pod: &&PodEndpoint| pod.ports.iter().all(is_of_pods_without_sidecar);
    pods.iter().filter(|pod| is_ready(&pod.endpoint)).filter(is_current).find_map(|pod| {
        let port = tcp_ports(service).find(|port| number_on_pod(port, &pod.ports).is_none())?;
        let TargetPort::Name(name) = TargetPort::of(port)? else { return None };
        let pod = pod.endpoint.addresses.first().cloned().unwrap_or_default();
        Some(MissingPort { service_port: port.port, name, pod })
    })
}

/// Ports with another target than the sidecar, or than the app that a managed port reaches through
/// it. Kubernetes defaults targetPort to the port, so the only port of a managed Service may have
/// that default.
fn other_targets(service: &Service, app_targets: &[IntOrString]) -> Vec<i32> {
    let managed = is_managed(service);
    let lone = managed && tcp_ports(service).count() == 1;
    let own = |port: &ServicePort| IntOrString::Int(port.port);
    let filled_in = |port: &ServicePort| port.target_port.as_ref().is_none_or(|target| *target == own(port));
    let is_app =
        |port: &ServicePort| managed && app_targets.contains(port.target_port.as_ref().unwrap_or(&own(port)));
    let others = tcp_ports(service)
        .filter(|port| !(targets_sidecar(port, QUEUE_PROXY_PORT) || is_app(port) || lone && filled_in(port)));
    others.map(|port| port.port).collect()
}

/// Whether the target is watched, and has the size 0.
fn is_target_at_zero(key: &Key, context: &Context) -> bool {
    let Some(autoscaler) = context.cache.autoscaler(key) else { return false };
    let scale = context.scaling.scales.cached(&key.namespace, &autoscaler.spec.scale_target_ref);
    scale.is_some_and(|scale| scale.replicas <= 0)
}

/// None where the kind of the target is not watched.
fn app_targets(key: &Key, context: &Context) -> Vec<IntOrString> {
    let target = context.cache.autoscaler(key).map(|it| it.spec.scale_target_ref.clone());
    let watched = target.and_then(|target| context.scaling.scales.watched(&key.namespace, &target));
    watched.map(|target| target.app_targets.clone()).unwrap_or_default()
}
