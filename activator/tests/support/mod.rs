//! An activator with real sockets on loopback, and its peers: pods, clients and receivers of
//! reports. The test sends the changes of the cluster, through the channel of the watches.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod collector;
pub mod group;
pub mod pod;
pub mod receiver;
pub mod upgrade;
pub mod work_log;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::TcpListener;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use activator::app::own_pod::OwnPod;
use activator::app::{App, Sources};
use activator::args::Limits;
use activator::requests::tcp_probes::TcpProbes;
use activator::slots::slot_exchange::SlotExchangeConfig;
use activator::traces::settings::TraceSettings;
use activator::workloads::containers::{AppPort, Containers, QueueProxy};
use activator::workloads::{ClusterChange, LeasedPort, Pod, Workload};
use autoscaler::contract::selector::Selector;
use autoscaler::settings::SidecarMode;
use autoscaler::{Key, Protocol};
use bytes::Bytes;
use component_base::kubernetes::ApiResources;
use component_base::readiness::Readiness;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Longer than any step of these tests takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub const LIMITS: Limits = Limits {
    queue_depth: 100,
    memory_budget: Some(1 << 30),
    wake_timeout: Duration::from_secs(60),
    longest_wake_timeout: Duration::from_secs(3600),
    waiting_page_after: Duration::from_millis(50),
    slow_wake: Duration::ZERO,
    fallback_wake_after: Duration::from_secs(30),
    header_timeout: Duration::from_secs(30),
    connection_idle_timeout: proxy::server::IDLE_TIMEOUT,
    tcp_silence: Duration::from_millis(200),
    tcp_answer_time: Duration::from_secs(60),
    drain_grace: Duration::from_millis(50),
    longest_drain_grace: Duration::from_secs(10),
    drain_timeout: Duration::from_secs(10),
};

/// A running activator with one workload, `shop/web`.
pub struct Harness {
    pub port: u16,
    pub wake_port: u16,
    pub pod_port: u16,
    pub registry: Registry,
    pub readiness: Readiness,
    pub tcp_probes: TcpProbes,
    pub stop: CancellationToken,
    pub running: tokio::task::JoinHandle<()>,
    pub receivers: watch::Sender<BTreeSet<std::net::SocketAddr>>,
    pub zero_scalers: watch::Sender<BTreeSet<std::net::SocketAddr>>,
    changes: mpsc::Sender<ClusterChange>,
    workload: Workload,
}

impl Harness {
    pub async fn start() -> Self {
        Self::with(LIMITS, |_| {}).await
    }

    pub async fn with(limits: Limits, adapt: impl FnOnce(&mut Workload)) -> Self {
        Self::at(None, free_port(), limits, adapt).await
    }

    /// An activator with a fallback waker.
    pub async fn with_fallback_waker(
        resources: ApiResources,
        limits: Limits,
        adapt: impl FnOnce(&mut Workload),
    ) -> Self {
        Self::beside(None, Some(resources), None, None, free_port(), limits, adapt).await
    }

    /// An activator that exports spans.
    pub async fn with_traces(traces: TraceSettings) -> Self {
        Self::beside(None, None, Some(traces), None, free_port(), LIMITS, |_| {}).await
    }

    /// An activator that reads its own pod when it stops.
    pub async fn with_own_pod(pod: OwnPod, limits: Limits) -> Self {
        Self::beside(None, None, None, Some(pod), free_port(), limits, |_| {}).await
    }

    /// One of several, with pods that listen on `pod_port`.
    pub async fn at(
        slot_exchange: Option<SlotExchangeConfig>,
        pod_port: u16,
        limits: Limits,
        adapt: impl FnOnce(&mut Workload),
    ) -> Self {
        Self::beside(slot_exchange, None, None, None, pod_port, limits, adapt).await
    }

    async fn beside(
        slot_exchange: Option<SlotExchangeConfig>,
        fallback_waker: Option<ApiResources>,
        traces: Option<TraceSettings>,
        own_pod: Option<OwnPod>,
        pod_port: u16,
        limits: Limits,
        adapt: impl FnOnce(&mut Workload),
    ) -> Self {
        let (sender, changes) = mpsc::channel(16);
        let (receivers, adapters) = watch::channel(BTreeSet::new());
        let (zero, zero_scalers) = watch::channel(BTreeSet::new());
        let agents = ["LoadBalancer/".to_owned()];
        let (registry, readiness, stop) = (Registry::new(), Readiness::default(), CancellationToken::new());
        let wake = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wake_port = wake.local_addr().unwrap().port();
        let app = App::new("activator-1".into(), limits, &agents, traces, &registry).unwrap();
        let mut app = app.with_wake_endpoint(wake);
        if let Some(pod) = own_pod {
            app = app.with_own_pod(pod);
        }
        let tcp_probes = app.tcp_probes();
        let (ready, stopped) = (readiness.clone(), stop.clone());
        let sources = Sources {
            changes,
            adapters,
            zero_scalers,
            fallback_waker,
            publication: None,
            namespaces: watch::Sender::default(),
            slot_exchange,
        };
        let running = tokio::spawn(async move { app.run(sources, &ready, stopped).await });
        let port = free_port();
        let mut workload = Workload {
            selector: Some(Selector::parse("app=web").unwrap()),
            ports: vec![lease(port, pod_port)],
            ..Workload::default()
        };
        adapt(&mut workload);
        let harness = Self {
            port,
            wake_port,
            pod_port,
            registry,
            readiness,
            tcp_probes,
            stop,
            running,
            receivers,
            zero_scalers: zero,
            changes: sender,
            workload,
        };
        harness.adapt(|_| {}).await;
        eventually("the port is open", || async {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
        })
        .await;
        harness
    }

    /// Changes the workload.
    pub async fn adapt(&self, adapt: impl FnOnce(&mut Workload)) {
        let mut workload = self.workload.clone();
        adapt(&mut workload);
        self.changes.send(ClusterChange::Workload(key(), Some(workload))).await.unwrap();
    }

    /// Another workload of one port, which is returned.
    pub async fn another(&self, name: &str) -> u16 {
        self.another_with(name, |_| {}).await
    }

    pub async fn another_with(&self, name: &str, adapt: impl FnOnce(&mut Workload)) -> u16 {
        self.another_in("shop", name, adapt).await
    }

    /// Another workload, which claims this port.
    pub async fn another_at(&self, name: &str, port: u16) {
        let mut workload = self.workload.clone();
        workload.selector = Some(Selector::parse(&format!("app={name}")).unwrap());
        workload.ports = vec![lease(port, self.pod_port)];
        self.changes.send(ClusterChange::Workload(Key::new("shop", name), Some(workload))).await.unwrap();
    }

    /// Another workload, in this namespace.
    pub async fn another_in(&self, namespace: &str, name: &str, adapt: impl FnOnce(&mut Workload)) -> u16 {
        let port = free_port();
        let mut workload = self.workload.clone();
        adapt(&mut workload);
        workload.selector = Some(Selector::parse(&format!("app={name}")).unwrap());
        workload.ports = vec![lease(port, self.pod_port)];
        self.changes.send(ClusterChange::Workload(Key::new(namespace, name), Some(workload))).await.unwrap();
        eventually("its port is open", || async {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
        })
        .await;
        port
    }

    /// Completes when all changes so far are applied.
    pub async fn settled(&self) {
        let last = free_port();
        let lease = lease(last, self.pod_port);
        self.adapt(|workload| workload.ports.push(lease)).await;
        eventually("the last port is open", || async {
            tokio::net::TcpStream::connect(("127.0.0.1", last)).await.is_ok()
        })
        .await;
    }

    pub async fn delete(&self) {
        self.changes.send(ClusterChange::Workload(key(), None)).await.unwrap();
    }

    /// A pod of the workload is seen at `ip`.
    pub async fn pod_seen(&self, ip: &str, ready: bool) {
        self.pod_of("web", ip, ready).await;
    }

    /// A pod of the workload is seen that has no address yet.
    pub async fn pod_starting(&self, ip: &str, scheduled: bool) {
        let pod = Pod { injected: true, ip: None, scheduled, ..scheduled_pod("web", ip, false) };
        self.changes.send(ClusterChange::Pod(pod_key(ip), Some(pod))).await.unwrap();
    }

    /// A pod of the workload is seen, with this limit of its queue-proxy; 0 means none.
    pub async fn limited_pod_seen(&self, ip: &str, ready: bool, limit: u32) {
        let queue_proxy = QueueProxy { limit: NonZeroU32::new(limit), ..QueueProxy::default() };
        let pod = Pod { injected: true, queue_proxy, ..scheduled_pod("web", ip, ready) };
        self.changes.send(ClusterChange::Pod(pod_key(ip), Some(pod))).await.unwrap();
    }

    pub async fn pod_of(&self, workload: &str, ip: &str, ready: bool) {
        self.pod_in("shop", workload, ip, ready).await;
    }

    pub async fn pod_in(&self, namespace: &str, workload: &str, ip: &str, ready: bool) {
        let pod = Pod { injected: true, ..scheduled_pod(workload, ip, ready) };
        let key = Key { namespace: namespace.to_owned(), ..pod_key(ip) };
        self.changes.send(ClusterChange::Pod(key, Some(pod))).await.unwrap();
    }

    /// A pod of the workload without a queue-proxy is seen. Its app has port `http` and this
    /// readiness probe.
    pub async fn plain_pod_seen(&self, ip: &str, ready: bool, probe: Value) {
        self.plain_pod_with(ip, ready, probe, |_| {}).await;
    }

    pub async fn plain_pod_with(
        &self,
        ip: &str,
        ready: bool,
        probe: Value,
        adapt: impl FnOnce(&mut Containers),
    ) {
        let ports = json!([{"name": "http", "containerPort": self.pod_port}]);
        let all = json!([{"name": "app", "ports": ports, "readinessProbe": probe}]);
        let mut containers =
            Containers { all: serde_json::from_value(all).unwrap(), ..Containers::default() };
        adapt(&mut containers);
        let pod = Pod { containers: Some(containers), ..scheduled_pod("web", ip, ready) };
        self.changes.send(ClusterChange::Pod(pod_key(ip), Some(pod))).await.unwrap();
    }

    pub async fn pod_gone(&self, ip: &str) {
        self.changes.send(ClusterChange::Pod(pod_key(ip), None)).await.unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A GET that runs in the background.
    pub fn get(&self, path: &str) -> tokio::task::JoinHandle<ReceivedResponse> {
        self.send(Request::get(self.url(path)).body(Full::default()).unwrap())
    }

    /// A call of a front door, with this path of the wake endpoint and this header.
    pub fn door_call(&self, path: &str, header: (&str, &str)) -> tokio::task::JoinHandle<ReceivedResponse> {
        let uri = format!("http://127.0.0.1:{}{path}", self.wake_port);
        self.send(Request::get(uri).header(header.0, header.1).body(Full::default()).unwrap())
    }

    pub fn send(&self, request: Request<Full<Bytes>>) -> tokio::task::JoinHandle<ReceivedResponse> {
        tokio::spawn(async move { ReceivedResponse::of(client().request(request).await.unwrap()).await })
    }

    /// Requests that wait now.
    pub fn held(&self) -> i64 {
        self.metric("rouse_activator_held_requests") as i64
    }

    pub async fn until_held(&self, count: i64) {
        eventually(&format!("{count} held"), || async { self.held() == count }).await;
    }

    /// The sum of a family's gauges or counters.
    pub fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let values = family.iter().flat_map(|family| family.get_metric());
        values.map(|m| m.get_gauge().get_value() + m.get_counter().get_value()).sum()
    }
}

/// Makes it a workload without a sidecar, with a target port by name.
pub fn without_sidecar(workload: &mut Workload) {
    workload.sidecar = SidecarMode::None;
    workload.ports[0].app_port = Some(AppPort::Name("http".into()));
}

fn lease(activator_port: u16, pod_port: u16) -> LeasedPort {
    LeasedPort { activator_port, pod_port: Some(pod_port), app_port: None, protocol: Protocol::Http }
}

/// A response, read to its end.
#[derive(Debug)]
pub struct ReceivedResponse {
    pub head: http::response::Parts,
    pub body: Bytes,
}

impl ReceivedResponse {
    pub async fn of(response: Response<hyper::body::Incoming>) -> Self {
        let (head, body) = response.into_parts();
        Self { head, body: body.collect().await.unwrap().to_bytes() }
    }

    pub fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    pub fn header(&self, name: &str) -> &str {
        self.head.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), "application/problem+json");
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub fn client<B>() -> Client<legacy::connect::HttpConnector, B>
where
    B: http_body::Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new()).build_http()
}

pub fn http2_client<B>() -> Client<legacy::connect::HttpConnector, B>
where
    B: http_body::Body + Send,
    B::Data: Send,
{
    Client::builder(TokioExecutor::new()).http2_only(true).build_http()
}

pub fn key() -> Key {
    Key::new("shop", "web")
}

/// A pod of the workload with a node and this address.
fn scheduled_pod(workload: &str, ip: &str, ready: bool) -> Pod {
    Pod {
        uid: ip.to_owned(),
        labels: BTreeMap::from([("app".to_owned(), workload.to_owned())]),
        ip: Some(ip.parse().unwrap()),
        scheduled: true,
        ready,
        ..Pod::default()
    }
}

fn pod_key(ip: &str) -> Key {
    Key::new("shop", format!("web-{ip}"))
}

/// Polls a condition until it is true.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let polled = async {
        while !is_true().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, polled).await.is_ok(), "not within {DEADLINE:?}: {what}");
}

/// The result of a future that must complete in time.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(result) => result,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

/// A port that is free on every address, outside of the range from which the kernel takes ports of
/// outgoing connections.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = 10_000 + u16::try_from(std::process::id() % 20_000).unwrap();
    loop {
        let port = start + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}
