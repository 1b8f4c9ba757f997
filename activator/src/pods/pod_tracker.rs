//! PodTracker: one pod as a destination, with the requests that this activator has on it.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use autoscaler::contract::sidecar_ports::SidecarPorts;
use autoscaler::contract::{PROXIED_HEADER, PROXIED_WITHOUT_UID};
use autoscaler::routing::proximity::Proximity;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::workloads::containers::{AppPort, NamedPort, QueueProxy};
use crate::workloads::readiness::PodProbe;
use crate::workloads::{LeasedPort, PodEndpoint, PodRoute};

/// Made once: an insert by text parses the text first.
const PROXIED: HeaderName = HeaderName::from_static(PROXIED_HEADER);

/// One pod of one workload. A successor with the same name or address has its own tracker.
#[derive(Debug)]
pub struct PodTracker {
    pub uid: String,
    pub ip: IpAddr,
    /// How far it is from this process.
    pub proximity: Proximity,
    /// When this process saw the address first.
    pub seen: Instant,
    destination: Destination,
    /// What verifies it while it is not Ready; changes while it starts.
    probe: ArcSwapOption<PodProbe>,
    in_flight: AtomicUsize,
    uncounted: AtomicUsize,
    verified: OnceLock<Instant>,
    removed: CancellationToken,
}

/// A request on a pod that is not counted, until dropped.
#[derive(Debug)]
pub struct UncountedOnPod(Arc<PodTracker>);

/// What takes the requests in the pod.
#[derive(Debug)]
enum Destination {
    /// With the uid as the value of [`PROXIED_HEADER`].
    QueueProxy { uid: HeaderValue, queue_proxy: QueueProxy },
    /// The app itself, with its named ports.
    App(Arc<[NamedPort]>),
}

// === impl PodTracker ===

impl PodTracker {
    /// A pod with an address that was just seen.
    pub fn new(endpoint: PodEndpoint, now: Instant) -> Self {
        let destination = match endpoint.route {
            PodRoute::QueueProxy(queue_proxy) => {
                Destination::QueueProxy { uid: proxied_value(&endpoint.uid), queue_proxy }
            }
            PodRoute::App(ports) => Destination::App(ports),
        };
        Self {
            destination,
            probe: ArcSwapOption::new(endpoint.probe.map(Arc::new)),
            uid: endpoint.uid,
            ip: endpoint.ip,
            proximity: endpoint.proximity,
            seen: now,
            in_flight: AtomicUsize::new(0),
            uncounted: AtomicUsize::new(0),
            verified: OnceLock::new(),
            removed: CancellationToken::new(),
        }
    }

    /// Whether requests pass its queue-proxy.
    pub fn has_queue_proxy(&self) -> bool {
        matches!(self.destination, Destination::QueueProxy { .. })
    }

    /// Where requests to the Service's port go; `None` if the pod has no port of the name.
    pub fn address(&self, port: &LeasedPort) -> Option<SocketAddr> {
        let number = match (&self.destination, &port.app_port) {
            (Destination::QueueProxy { queue_proxy, .. }, _) => sidecar_port(&queue_proxy.ports, port),
            (Destination::App(_), None) => port.pod_port?,
            (Destination::App(_), Some(AppPort::Number(number))) => *number,
            (Destination::App(ports), Some(AppPort::Name(name))) => {
                ports.iter().find(|port| port.name == *name)?.number
            }
        };
        Some(SocketAddr::new(self.ip, number))
    }

    /// Where its queue-proxy answers probes, given a port of the workload; `None` without a
    /// queue-proxy.
    pub fn queue_proxy(&self, port: Option<&LeasedPort>) -> Option<SocketAddr> {
        let Destination::QueueProxy { queue_proxy: QueueProxy { ports, .. }, .. } = &self.destination else {
            return None;
        };
        Some(SocketAddr::new(self.ip, port.map_or(ports.traffic, |port| sidecar_port(ports, port))))
    }

    /// Requests that its queue-proxy admits at a time; `None` if the workload's limit counts.
    pub fn limit(&self) -> Option<NonZeroU32> {
        match &self.destination {
            Destination::QueueProxy { queue_proxy, .. } => queue_proxy.limit,
            Destination::App(_) => None,
        }
    }

    /// Marks a request with these headers as one of this process for this pod. A queue-proxy of
    /// another pod refuses it. An app gets no header of ours, also if the request was meant for
    /// another pod before.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        match &self.destination {
            Destination::QueueProxy { uid, .. } => {
                headers.insert(PROXIED, uid.clone());
            }
            Destination::App(_) => {
                headers.remove(PROXIED);
            }
        }
    }

    /// What verifies that it takes requests, beside its Ready condition.
    pub fn probe(&self) -> Option<Arc<PodProbe>> {
        self.probe.load_full()
    }

    /// Sets what verifies it.
    pub(crate) fn set_probe(&self, probe: Option<PodProbe>) {
        if self.probe.load().as_deref() != probe.as_ref() {
            self.probe.store(probe.map(Arc::new));
        }
    }

    /// When it was first verified to take requests, by a probe or by its Ready condition.
    pub fn verified(&self) -> Option<Instant> {
        self.verified.get().copied()
    }

    /// Requests on it from this activator.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a request that is sent to it.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a request on it.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Enters a request that is not counted, if fewer than `places` are on the pod.
    pub(crate) fn enter_uncounted(self: &Arc<Self>, places: usize) -> Option<UncountedOnPod> {
        let add = |entered: usize| (entered < places).then(|| entered + 1);
        self.uncounted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(UncountedOnPod(self.clone()))
    }

    /// Marks it as verified; later calls change nothing.
    pub(crate) fn mark_verified(&self, now: Instant) {
        self.verified.get_or_init(|| now);
    }

    /// Marks it as removed, which ends its probes.
    pub(crate) fn mark_removed(&self) {
        self.removed.cancel();
    }

    /// Completes when the pod is removed.
    pub async fn removed(&self) {
        self.removed.cancelled().await;
    }
}

// === impl UncountedOnPod ===

impl UncountedOnPod {
    /// The pod.
    pub(crate) fn pod(&self) -> &Arc<PodTracker> {
        &self.0
    }
}

impl Drop for UncountedOnPod {
    fn drop(&mut self) {
        self.0.uncounted.fetch_sub(1, Ordering::Relaxed);
    }
}

fn sidecar_port(ports: &SidecarPorts, port: &LeasedPort) -> u16 {
    port.pod_port.unwrap_or_else(|| ports.for_protocol(port.protocol))
}

/// A pod of a workloads file may have no uid.
fn proxied_value(uid: &str) -> HeaderValue {
    let value = HeaderValue::from_str(uid).ok().filter(|value| !value.is_empty());
    let Some(mut value) = value else { return HeaderValue::from_static(PROXIED_WITHOUT_UID) };
    // Not logged, and not in HTTP/2's table of headers, which all requests of a connection share.
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use autoscaler::Protocol;

    use super::*;

    fn tracker(route: PodRoute) -> PodTracker {
        let (uid, ip, proximity) = ("a1".into(), [10, 0, 0, 1].into(), Proximity::default());
        let endpoint = PodEndpoint { uid, ip, proximity, ready: false, draining: false, route, probe: None };
        PodTracker::new(endpoint, Instant::now())
    }

    fn port(app_port: Option<AppPort>) -> LeasedPort {
        LeasedPort { activator_port: 20001, pod_port: None, app_port, protocol: Protocol::Http }
    }

    fn by_queue_proxy() -> PodRoute {
        let ports = SidecarPorts { traffic: 18012, admin: 18022, stats: 19090 };
        PodRoute::QueueProxy(QueueProxy { ports, limit: None })
    }

    #[test]
    fn port_is_that_of_the_queue_proxy_or_of_the_app() {
        let named = [NamedPort { name: "http".into(), number: 3000 }];
        let (proxied, app) = (tracker(by_queue_proxy()), tracker(PodRoute::App(named.into())));
        for (app_port, of_proxied, of_app) in [
            (None, Some(18012), None),
            (Some(AppPort::Number(8080)), Some(18012), Some(8080)),
            (Some(AppPort::Name("http".into())), Some(18012), Some(3000)),
            (Some(AppPort::Name("grpc".into())), Some(18012), None),
        ] {
            let port = port(app_port);
            let number = |pod: &PodTracker| pod.address(&port).map(|address| address.port());
            assert_eq!((number(&proxied), number(&app)), (of_proxied, of_app), "{port:?}");
        }
    }

    #[test]
    fn probes_and_tcp_connections_reach_the_ports_that_the_pod_declares() {
        let (pod, app) = (tracker(by_queue_proxy()), tracker(PodRoute::App([].into())));
        let tcp = LeasedPort { protocol: Protocol::Tcp, ..port(None) };
        let of_file = LeasedPort { pod_port: Some(7000), ..port(None) };
        for (port, expected) in
            [(None, 18012), (Some(&port(None)), 18012), (Some(&tcp), 18022), (Some(&of_file), 7000)]
        {
            assert_eq!(pod.queue_proxy(port).map(|address| address.port()), Some(expected), "{port:?}");
            assert_eq!(app.queue_proxy(port), None);
        }
        assert_eq!(pod.address(&tcp).map(|address| address.port()), Some(18022));
    }

    #[test]
    fn app_gets_no_header_that_was_set_for_another_pod() {
        let mut headers = HeaderMap::new();
        tracker(by_queue_proxy()).mark(&mut headers);
        assert_eq!(headers[PROXIED_HEADER], "a1");
        tracker(PodRoute::App([].into())).mark(&mut headers);
        assert!(headers.is_empty());
    }
}
