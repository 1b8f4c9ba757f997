//! Everything known of one Service, gathered into one value. All of it is in memory already.

use std::collections::BTreeSet;
use std::sync::Arc;

use autoscaler::api::{PortLease, ServerlessService, ServerlessServiceStatus, StartFailure};
use autoscaler::contract::{GROUP, QUEUE_PROXY, QUEUE_PROXY_PORT};
use autoscaler::{Key, Protocol};
use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::desired::private_name;
use crate::claim::holder_of_service;
use crate::context::Context;
use crate::pod_endpoints::{PodEndpoint, elsewhere, is_managed, is_ours, pods, ready, tcp_ports};
use crate::service::Service;

/// One Service and who could answer its requests.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) key: Key,
    pub(super) sks: ServerlessService,
    pub(super) service: Arc<Service>,
    /// Whether its endpoints are ours.
    pub(super) managed: bool,
    /// The Service that selects the pods, in managed mode.
    pub(super) private: Option<String>,
    /// Its existing form.
    pub(super) private_service: Option<Arc<Service>>,
    /// Its TCP ports, with their leases.
    pub(super) ports: Vec<PortLease>,
    /// The pods, ready or not.
    pub(super) pods: Vec<PodEndpoint>,
    /// The slices that we wrote.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    /// The ready activators.
    pub(super) activators: Vec<PodEndpoint>,
    /// Whether they are all about to go for good.
    pub(super) activators_leave: bool,
    /// Why no pod starts.
    pub(super) start_failure: Option<StartFailure>,
    /// Service ports that lead past the sidecar.
    pub(super) bypassing: Vec<i32>,
    /// Where else than at the usual port pods have their sidecar.
    pub(super) elsewhere: BTreeSet<i32>,
    pub(super) now: jiff::Timestamp,
}

/// Why a Service cannot be steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

// === impl Observed ===

impl Observed {
    /// The status as last written.
    pub(super) fn status(&self) -> ServerlessServiceStatus {
        self.sks.status.clone().unwrap_or_default()
    }

    /// Ready pods.
    pub(super) fn ready_pods(&self) -> u32 {
        ready(&self.pods)
    }
}

pub(super) fn observe(key: &Key, sks: &ServerlessService, context: &Context) -> Result<Observed, Unfit> {
    let service = find(key, sks, context)?;
    let managed = is_managed(&service);
    let private = managed.then(|| private_name(&sks.spec.service));
    let private_service = private.as_deref().and_then(|name| context.objects.service(&key.namespace, name));
    let slices = &context.objects.slices;
    let pods = pods(slices, &key.namespace, &service, private.as_deref());
    let ours =
        slices.of(&key.namespace, &sks.spec.service).into_iter().filter(|slice| is_ours(slice)).collect();
    let elsewhere = elsewhere(slices, &key.namespace, &service, private.as_deref());
    Ok(Observed {
        key: key.clone(),
        sks: sks.clone(),
        managed,
        private,
        private_service,
        ports: ports(key, sks, &service, context)?,
        pods,
        slices: ours,
        start_failure: context
            .starts
            .failure(key, sks.status.as_ref().and_then(|s| s.start_failure.as_ref())),
        activators: context.activators.ready(),
        activators_leave: context.activators.are_leaving(),
        bypassing: if managed { Vec::new() } else { bypassing(&service) },
        elsewhere,
        service,
        now: context.clock.now(),
    })
}

fn find(key: &Key, sks: &ServerlessService, context: &Context) -> Result<Arc<Service>, Unfit> {
    let unfit = |reason, message| Unfit { reason, message };
    let name = &sks.spec.service;
    let service = context
        .objects
        .service(&key.namespace, name)
        .filter(|service| service.metadata.deletion_timestamp.is_none())
        .ok_or_else(|| unfit("ServiceNotFound", format!("there is no Service {name}; make it")))?;
    if let Some(holder) = holder_of_service(key, name, context) {
        let words = format!(
            "the requests of the Service {name} are led to the workload {} already; give this one a Service of its own, delete one of the \
             two, or mark as Unreachable ({GROUP}/reachability) which of them should get none",
            holder.name
        );
        return Err(unfit("ServiceTaken", words));
    }
    let spec = service.spec.as_ref();
    if spec.and_then(|s| s.type_.as_deref()) == Some("ExternalName") {
        return Err(unfit(
            "ServiceIsExternal",
            format!("the Service {name} is of type ExternalName, which has no endpoints"),
        ));
    }
    if spec.and_then(|s| s.cluster_ip.as_deref()) == Some("None") {
        let words = format!(
            "the Service {name} is headless, so clients choose pods by themselves and cannot be led to an activator; \
             use one with a cluster IP"
        );
        return Err(unfit("ServiceIsHeadless", words));
    }
    if is_managed(&service)
        && autoscaler::selector::Selector::parse(&sks.spec.selector)
            .ok()
            .and_then(|s| s.as_labels())
            .is_none()
    {
        let words = format!(
            "the target's selector {:?} says more than label=value, which a Service cannot; give the Service {name} a \
             selector of its own, with targetPort: {QUEUE_PROXY}",
            sks.spec.selector
        );
        return Err(unfit("SelectorNotEquality", words));
    }
    Ok(service)
}

fn ports(
    key: &Key,
    sks: &ServerlessService,
    service: &Service,
    context: &Context,
) -> Result<Vec<PortLease>, Unfit> {
    let ports: Vec<(&ServicePort, u16)> =
        tcp_ports(service).filter_map(|port| Some((port, u16::try_from(port.port).ok()?))).collect();
    let wanted: BTreeSet<u16> = ports.iter().map(|(_, number)| *number).collect();
    if wanted.is_empty() {
        let message = format!("the Service {} has no TCP port", sks.spec.service);
        return Err(Unfit { reason: "ServiceHasNoPort", message });
    }
    let leased = context
        .objects
        .leases
        .grant(key, &wanted)
        .map_err(|error| Unfit { reason: "PortsExhausted", message: error.to_string() })?;
    Ok(ports
        .into_iter()
        .filter_map(|(port, service_port)| {
            Some(PortLease {
                name: port.name.clone().unwrap_or_default(),
                service_port,
                activator_port: *leased.get(&service_port)?,
                pod_port: QUEUE_PROXY_PORT,
                protocol: Protocol::of_app_protocol(port.app_protocol.as_deref()),
            })
        })
        .collect())
}

/// Ports of an attached Service that lead to the app itself: their requests would be neither counted nor limited.
fn bypassing(service: &Service) -> Vec<i32> {
    let through = |port: &&ServicePort| match &port.target_port {
        Some(IntOrString::String(name)) => name == QUEUE_PROXY,
        Some(IntOrString::Int(number)) => *number == i32::from(QUEUE_PROXY_PORT),
        None => port.port == i32::from(QUEUE_PROXY_PORT),
    };
    tcp_ports(service).filter(|port| !through(port)).map(|port| port.port).collect()
}
