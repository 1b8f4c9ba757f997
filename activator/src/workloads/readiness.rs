//! How the readiness of a pod is verified while its Ready condition is not true: a pure rule.
//!
//! The kubelet probes a container once in `periodSeconds`, a second at least, and its result takes
//! the way through the API server. A probe from here, of the same kind, finds the moment at which
//! the app takes requests. It must not succeed before the kubelet's could:
//!
//! | The pod | Is verified by |
//! |---|---|
//! | has a queue-proxy | a probe of that, which answers when the app is ready |
//! | has readiness probes, and all of them can be run from here | the same probes |
//! | else, and it was Ready before | a connection to its port |
//! | else | its Ready condition alone |
//!
//! Probes are run from here if all of this holds:
//!
//! - each is `httpGet` without TLS, `tcpSocket` or `grpc`, to the pod itself, and begins without
//!   `initialDelaySeconds`: an owner that delays probes excludes a pod that only seems ready;
//! - each container to which a port of the Service leads has one;
//! - every startup probe has succeeded: the kubelet runs no readiness probe before;
//! - the pod has no readiness gates, which the kubelet evaluates beside the probes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{HTTPGetAction, Probe, TCPSocketAction};
use proxy::app_probe::ProbeAction;

use super::containers::{AppPort, Container, Containers};

/// Kubernetes' default of `timeoutSeconds`.
const DEFAULT_TIMEOUT_SECONDS: i32 = 1;

/// What verifies that a pod takes requests, beside its Ready condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodProbe {
    /// Its queue-proxy responds once its app is ready.
    QueueProxy,
    /// The readiness probes of its containers; all must succeed.
    Containers(Arc<[ContainerProbe]>),
    /// The app accepts connections again. The pod was Ready before.
    Connection(SocketAddr),
}

/// The readiness probe of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerProbe {
    pub action: ProbeAction,
    /// Longest time of one probe.
    pub timeout: Duration,
    /// Successful probes in a row.
    pub successes: u32,
}

// === impl PodProbe ===

impl PodProbe {
    /// The probe of a pod without a queue-proxy at `ip`, to which these ports of the Service lead.
    /// `was_ready` if its Ready condition is true, or was before this process started.
    pub fn of_app<'a>(
        containers: &Containers,
        ip: IpAddr,
        ports: impl Iterator<Item = &'a AppPort> + Clone,
        was_ready: bool,
    ) -> Option<Self> {
        if let Some(probes) = readiness_probes(containers, ip, ports.clone()) {
            return Some(Self::Containers(probes.into()));
        }
        let port = ports.filter_map(|port| containers.resolve(port)).next().filter(|_| was_ready)?;
        Some(Self::Connection(SocketAddr::new(ip, port)))
    }
}

/// The probes of all containers that have one; `None` if they do not suffice.
fn readiness_probes<'a>(
    containers: &Containers,
    ip: IpAddr,
    ports: impl Iterator<Item = &'a AppPort>,
) -> Option<Vec<ContainerProbe>> {
    if containers.has_readiness_gates || containers.is_starting {
        return None;
    }
    for port in ports.filter(|port| containers.resolve(port).is_some()) {
        container_of(containers, port)?.readiness_probe.as_ref()?;
    }
    let probed =
        containers.all.iter().filter_map(|container| Some((container, container.readiness_probe.as_ref()?)));
    let probes: Vec<_> =
        probed.map(|(container, probe)| container_probe(container, probe, ip)).collect::<Option<_>>()?;
    (!probes.is_empty()).then_some(probes)
}

/// The container that listens on the port. A port needs no declaration if it has a number.
fn container_of<'a>(containers: &'a Containers, port: &AppPort) -> Option<&'a Container> {
    if let Some(declaring) = containers.all.iter().find(|container| container.declares(port)) {
        return Some(declaring);
    }
    if let [only] = containers.all.as_slice() {
        return Some(only);
    }
    let number = containers.resolve(port)?;
    containers.all.iter().find(|container| container.probed_port() == Some(number))
}

fn container_probe(container: &Container, probe: &Probe, ip: IpAddr) -> Option<ContainerProbe> {
    if probe.initial_delay_seconds.is_some_and(|seconds| seconds > 0) {
        return None;
    }
    let address = SocketAddr::new(ip, container.probed_port()?);
    let action = match (&probe.http_get, &probe.tcp_socket, &probe.grpc) {
        (Some(get), None, None) => http_get(get, address)?,
        (None, Some(TCPSocketAction { host, .. }), None) if is_pod(host.as_deref()) => {
            ProbeAction::Tcp(address)
        }
        (None, None, Some(grpc)) => {
            ProbeAction::Grpc { address, service: grpc.service.clone().unwrap_or_default() }
        }
        _ => return None,
    };
    let timeout = probe.timeout_seconds.unwrap_or_default().max(DEFAULT_TIMEOUT_SECONDS).unsigned_abs();
    let successes = probe.success_threshold.unwrap_or_default().max(1).unsigned_abs();
    Some(ContainerProbe { action, timeout: Duration::from_secs(timeout.into()), successes })
}

fn http_get(get: &HTTPGetAction, address: SocketAddr) -> Option<ProbeAction> {
    let is_plain = get.scheme.as_deref().is_none_or(|scheme| scheme.is_empty() || scheme == "HTTP");
    if !is_plain || !is_pod(get.host.as_deref()) {
        return None;
    }
    let headers =
        get.http_headers.iter().flatten().map(|header| (header.name.as_str(), header.value.as_str()));
    ProbeAction::http_get(address, get.path.as_deref(), headers).ok()
}

/// Whether a probe with this host goes to the pod itself. Another address does not show what the
/// pod answers.
fn is_pod(host: Option<&str>) -> bool {
    host.is_none_or(str::is_empty)
}

// === impl Container ===

impl Container {
    /// The port to which its readiness probe goes.
    fn probed_port(&self) -> Option<u16> {
        let probe = self.readiness_probe.as_ref()?;
        match (&probe.http_get, &probe.tcp_socket, &probe.grpc) {
            (Some(get), None, None) => self.resolve(&get.port),
            (None, Some(socket), None) => self.resolve(&socket.port),
            (None, None, Some(grpc)) => grpc.port.try_into().ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
