//! Both proxies, started in the test process in front of an app.

#![allow(dead_code, reason = "each test file uses its part of this")]

pub(crate) mod workload_at_zero;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use activator::app::Sources;
use activator::args::Limits;
use activator::workloads::containers::{AppPort, Container, Containers};
use activator::workloads::{ClusterChange, LeasedPort, Pod, Workload};
use autoscaler::contract::selector::Selector;
use autoscaler::settings::SidecarMode;
use autoscaler::{Key, Protocol};
use clap::Parser;
use component_base::readiness::Readiness;
use conformance::runner::{ProxySettings, RunningProxy};
use k8s_openapi::api::core::v1::{Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use prometheus::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// A queue-proxy with its addresses. Drop stops it.
pub(crate) struct QueueProxy {
    pub(crate) traffic: SocketAddr,
    pub(crate) stats: SocketAddr,
    admin: SocketAddr,
    run: AbortOnDrop,
}

/// An activator with one workload. Drop stops it.
pub(crate) struct Activator {
    pub(crate) address: SocketAddr,
    /// Of the app, or of its queue-proxy.
    pod: SocketAddr,
    sidecar: SidecarMode,
    registry: Registry,
    changes: mpsc::Sender<ClusterChange>,
    /// Keeps the channels of adapters and zero-scalers open, without any address.
    _address_senders: [watch::Sender<BTreeSet<SocketAddr>>; 2],
    _run: AbortOnDrop,
}

/// A queue-proxy with a ready app.
pub(crate) async fn queue_proxy(setup: ProxySettings) -> RunningProxy {
    queue_proxy_of(setup, &[]).await
}

/// As above, in TCP mode.
pub(crate) async fn tcp_queue_proxy(setup: ProxySettings) -> RunningProxy {
    queue_proxy_of(setup, TCP).await
}

async fn queue_proxy_of(setup: ProxySettings, more: &[&str]) -> RunningProxy {
    let QueueProxy { traffic, run, .. } = QueueProxy::start(setup, more).await;
    RunningProxy {
        address: traffic,
        probe: "GET / HTTP/1.1\r\nhost: a\r\nrouse-probe: queue-proxy\r\n\r\n",
        guard: Box::new(run),
    }
}

/// An activator with one workload and a ready pod.
pub(crate) async fn activator(setup: ProxySettings) -> RunningProxy {
    activator_of(setup, SidecarMode::Required, Protocol::Http).await
}

/// An activator with one workload without a sidecar, and a ready pod.
pub(crate) async fn activator_without_sidecar(setup: ProxySettings) -> RunningProxy {
    activator_of(setup, SidecarMode::None, Protocol::Http).await
}

/// As above, in TCP mode.
pub(crate) async fn tcp_activator_without_sidecar(setup: ProxySettings) -> RunningProxy {
    activator_of(setup, SidecarMode::None, Protocol::Tcp).await
}

/// Both: an activator in front of a queue-proxy that knows the pod.
pub(crate) async fn both_proxies(setup: ProxySettings) -> RunningProxy {
    let queue_proxy = QueueProxy::start(setup, &["--pod-uid", POD_UID]).await;
    let proxy = activator(ProxySettings { app: queue_proxy.traffic, ..setup }).await;
    RunningProxy { guard: Box::new((proxy.guard, queue_proxy)), ..proxy }
}

/// Both in TCP mode: the activator's connections lead through the sidecar's admin port.
pub(crate) async fn both_tcp_proxies(setup: ProxySettings) -> RunningProxy {
    let queue_proxy = QueueProxy::start(setup, &[TCP, &["--pod-uid", POD_UID]].concat()).await;
    let setup = ProxySettings { app: queue_proxy.admin, ..setup };
    let proxy = activator_of(setup, SidecarMode::Required, Protocol::Tcp).await;
    RunningProxy { guard: Box::new((proxy.guard, queue_proxy)), ..proxy }
}

/// The settings of a sidecar that has the app's port alone.
pub(crate) fn by_port(setup: ProxySettings) -> ProxySettings {
    ProxySettings { app: (Ipv4Addr::UNSPECIFIED, setup.app.port()).into(), ..setup }
}

async fn activator_of(setup: ProxySettings, sidecar: SidecarMode, protocol: Protocol) -> RunningProxy {
    let activator = Activator::start_of(setup, Duration::from_secs(5), sidecar, protocol).await;
    activator.report_pod(true).await;
    activator.wait_until_listening().await;
    RunningProxy {
        address: activator.address,
        probe: "GET / HTTP/1.1\r\nhost: a\r\nrouse-probe: activator\r\n\r\n",
        guard: Box::new(activator),
    }
}

const POD_UID: &str = "1";
const TCP: &[&str] = &["--protocol", "tcp"];
/// The user agent of kubelets, as in the defaults of both proxies.
const HEALTH_CHECK: &str = "kube-probe/";

// === impl Activator ===

impl Activator {
    /// Starts without pods. The pod to come has the address of the app in `setup`. Requests wait
    /// for it for `wake_timeout`.
    pub(crate) async fn start_of(
        setup: ProxySettings,
        wake_timeout: Duration,
        sidecar: SidecarMode,
        protocol: Protocol,
    ) -> Self {
        let limits = Limits {
            queue_depth: 100,
            memory_budget: Some(1 << 30),
            wake_timeout,
            longest_wake_timeout: Duration::from_secs(60),
            waiting_page_after: Duration::from_secs(2),
            slow_wake: Duration::ZERO,
            fallback_wake_after: Duration::from_secs(30),
            drain_grace: Duration::ZERO,
            longest_drain_grace: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            tcp_silence: Duration::from_secs(5),
            tcp_answer_time: Duration::from_secs(5),
            header_timeout: setup.header_timeout,
            connection_idle_timeout: setup.idle_timeout,
        };
        let (changes, received) = mpsc::channel(2);
        let (adapters, zero_scalers) =
            (watch::Sender::new(BTreeSet::new()), watch::Sender::new(BTreeSet::new()));
        let sources = Sources {
            changes: received,
            adapters: adapters.subscribe(),
            zero_scalers: zero_scalers.subscribe(),
            fallback_waker: None,
            publication: None,
            namespaces: watch::Sender::default(),
            slot_exchange: None,
        };
        let registry = Registry::new();
        let app =
            activator::app::App::new("activator".into(), limits, &[HEALTH_CHECK.into()], None, &registry)
                .unwrap();
        let run = AbortOnDrop(tokio::spawn(async move {
            app.run(sources, &Readiness::default(), CancellationToken::new()).await;
        }));
        let port = free_port();
        let workload = Workload {
            selector: Some(Selector::parse("app=web").unwrap()),
            sidecar,
            // Requests that are not held must not be changed by it.
            sse_keep_alive: true,
            ports: vec![LeasedPort {
                activator_port: port,
                pod_port: Some(setup.app.port()),
                app_port: (!sidecar.is_required()).then_some(AppPort::Number(setup.app.port())),
                protocol,
            }],
            ..Workload::default()
        };
        changes.send(ClusterChange::Workload(Key::new("shop", "web"), Some(workload))).await.unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            address,
            pod: setup.app,
            sidecar,
            registry,
            changes,
            _address_senders: [adapters, zero_scalers],
            _run: run,
        }
    }

    /// Reports the pod, with or without the Ready condition.
    pub(crate) async fn report_pod(&self, ready: bool) {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let pod = Pod {
            uid: POD_UID.into(),
            labels,
            ip: Some(self.pod.ip()),
            scheduled: true,
            ready,
            injected: self.sidecar.is_required(),
            containers: (!self.sidecar.is_required()).then(|| probed_by_connection(self.pod.port())),
            ..Pod::default()
        };
        self.changes.send(ClusterChange::Pod(Key::new("shop", "web-1"), Some(pod))).await.unwrap();
    }

    /// Waits until clients can connect.
    pub(crate) async fn wait_until_listening(&self) {
        while TcpStream::connect(self.address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Number of held requests.
    pub(crate) fn held(&self) -> f64 {
        let families = self.registry.gather();
        let held = families.iter().filter(|family| family.name() == "rouse_activator_held_requests");
        held.flat_map(|family| family.get_metric()).map(|metric| metric.get_gauge().get_value()).sum()
    }
}

// === impl QueueProxy ===

impl QueueProxy {
    pub(crate) async fn start(setup: ProxySettings, more: &[&str]) -> Self {
        let (any, upstream) = ("[::]:0", setup.app.to_string());
        let header_timeout = format!("{}ms", setup.header_timeout.as_millis());
        let arguments = [
            "queue-proxy",
            "--listen",
            any,
            "--stats-listen",
            any,
            "--admin-listen",
            any,
            "--upstream",
            &upstream,
            // One thread, so that the state after one client's request applies to all clients.
            "--workers",
            "1",
            "--header-timeout",
            &header_timeout,
        ];
        let mut args = queue_proxy::Args::parse_from(arguments.iter().chain(more));
        args.connection_idle_timeout = setup.idle_timeout;
        let app = queue_proxy::App::bind(args).await.unwrap();
        let addresses = app.addresses().unwrap();
        let run = AbortOnDrop(tokio::spawn(async move {
            app.run(CancellationToken::new()).await.unwrap();
        }));
        let local = |address: SocketAddr| (Ipv4Addr::LOCALHOST, address.port()).into();
        Self {
            traffic: local(addresses.traffic),
            stats: local(addresses.stats),
            admin: local(addresses.admin),
            run,
        }
    }

    /// The value of a metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> i64 {
        let mut stream = TcpStream::connect(self.stats).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {answer}")).parse().unwrap()
    }
}

/// The containers of a pod whose app is ready when this port accepts a connection.
fn probed_by_connection(port: u16) -> Containers {
    let tcp_socket = Some(TCPSocketAction { port: IntOrString::Int(port.into()), host: None });
    let readiness_probe = Some(Box::new(Probe { tcp_socket, ..Probe::default() }));
    Containers { all: vec![Container { readiness_probe, ..Container::default() }], ..Containers::default() }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A port that is free on every address, outside the kernel's range for outgoing connections.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + u16::try_from(std::process::id() % 20_000).unwrap();
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}
