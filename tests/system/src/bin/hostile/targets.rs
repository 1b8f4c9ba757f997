//! The addresses of a port on all replicas, as any pod can find them by scanning.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use autoscaler::contract::LEASED_PORTS;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use system_tests::cluster::installation;
use system_tests::cluster::namespace::{TestNamespace, is_ready, pods_of};

use crate::table::{Part, Port, PortNumber};

/// The addresses of a port.
///
/// # Errors
/// When no replica is ready.
pub(crate) async fn addresses(
    port: Port,
    namespace: &TestNamespace,
    victim: &str,
) -> Result<Vec<SocketAddr>> {
    let number = match port.number {
        PortNumber::Fixed(number) => number,
        PortNumber::Leased => leased_port(namespace, victim).await?,
        PortNumber::Unknown => 0,
    };
    let pods = match port.part {
        Part::Component(name) => components(namespace, name).await?,
        Part::QueueProxy => pods_of(namespace, victim).await?,
    };
    let ips: Vec<IpAddr> = pods.iter().filter(|pod| is_ready(pod)).filter_map(ip).collect();
    ensure!(!ips.is_empty(), "no pod of {port} is ready");
    Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, number)).collect())
}

/// The pods of one of the installation's Deployments.
///
/// # Errors
/// When the API refuses.
pub(crate) async fn components(namespace: &TestNamespace, name: &str) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = installation::system_api(&namespace.client);
    Ok(pods.list(&installation::component_selector(name)).await?.items)
}

fn ip(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()
}

/// The victim's Service leads to the activators all the time, so its slices have the port.
async fn leased_port(namespace: &TestNamespace, victim: &str) -> Result<u16> {
    let slices: Api<EndpointSlice> = namespace.api();
    let selected = ListParams::default().labels(&format!("kubernetes.io/service-name={victim}"));
    let slices = slices.list(&selected).await?;
    slices
        .items
        .iter()
        .flat_map(|slice| slice.ports.iter().flatten())
        .filter_map(|port| u16::try_from(port.port?).ok())
        .find(|port| LEASED_PORTS.contains(port))
        .context("the victim's slices have no leased port")
}
