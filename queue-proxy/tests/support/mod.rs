//! A sidecar between a real hyper client and a real hyper app, over loopback.

#![allow(dead_code, reason = "each test file uses its part of this")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

pub(crate) mod app;
pub(crate) mod reserved_address;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::PROXIED_HEADER;
use autoscaler::stats::Stat;
use bytes::Bytes;
use clap::Parser;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use queue_proxy::app::Addresses;
use queue_proxy::{App, Args};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The UID of the sidecar's pod.
pub(crate) const POD_UID: &str = "0b2c7d5e-8f43-4a60-9d0c-6f3ad9c5e1b7";
/// The UID of another pod.
pub(crate) const OTHER_UID: &str = "5e1b7c0a-1d2f-4c3b-8a97-0b2c7d5e8f43";
/// Longest wait for any expected event.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A running sidecar.
pub(crate) struct Sidecar {
    pub(crate) at: Addresses,
    pub(crate) stop: CancellationToken,
    pub(crate) run: JoinHandle<anyhow::Result<()>>,
}

impl Sidecar {
    /// Starts a sidecar for the app at `upstream`; `flags` follow the address flags.
    pub(crate) async fn start(upstream: SocketAddr, flags: &[&str]) -> Self {
        let any = "127.0.0.1:0";
        let upstream = upstream.to_string();
        let addresses =
            ["--listen", any, "--stats-listen", any, "--admin-listen", any, "--upstream", &upstream];
        let flags = ["queue-proxy"].iter().chain(&addresses).chain(flags);
        let mut args = Args::parse_from(flags);
        // A flag sets both, so that tests of idle connections are short.
        args.connection_idle_timeout = args.header_timeout;
        let app = App::bind(args).await.unwrap();
        let at = app.addresses().unwrap();
        let stop = CancellationToken::new();
        let run = tokio::spawn(app.run(stop.clone()));
        Self { at, stop, run }
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Incoming> {
        send(self.at.traffic, request(path)).await
    }

    /// The value of one line of /metrics.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let page = text(send(self.at.stats, request("/metrics")).await).await;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
    }

    /// The last finished period; empty before the first one has ended.
    pub(crate) async fn stat(&self) -> Stat {
        let response = send(self.at.stats, request("/stat")).await;
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            return Stat::default();
        }
        serde_json::from_str(&text(response).await).unwrap()
    }

    /// Waits until so many requests are in flight, of which so many are queued.
    pub(crate) async fn holds(&self, in_flight: f64, queued: f64) {
        eventually(async || {
            self.metric("rouse_queue_proxy_requests_in_flight").await == in_flight
                && self.metric("rouse_queue_proxy_queue_depth").await == queued
        })
        .await;
    }
}

/// A request that an activator sends to the pod with this UID.
pub(crate) fn proxied(path: &str, uid: &str) -> Request<Full<Bytes>> {
    let mut request = request(path);
    request.headers_mut().insert(PROXIED_HEADER, uid.parse().unwrap());
    request
}

pub(crate) fn request(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", "web.example").body(Full::default()).unwrap()
}

/// Sends a request over its own connection.
pub(crate) async fn send(to: SocketAddr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let stream = TokioIo::new(TcpStream::connect(to).await.unwrap());
    if request.version() == Version::HTTP_2 {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.unwrap()
    }
}

pub(crate) async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Polls until the condition holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(condition: impl Fn() -> F) {
    within(async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The future's result, within the deadline.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("not ready within the deadline")
}
