//! Widely used clients and servers through the queue-proxy, through an activator in front of it,
//! and through an activator in front of a pod without a sidecar.
//!
//! The conformance table covers single messages. These tests use libraries and programs with code
//! of their own, and streams in both directions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod app;
mod backpressure;
mod client;
mod curl;
mod grpc;
mod pattern;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod websocket;

use std::net::SocketAddr;
use std::time::Duration;

use conformance::runner::{ProxySettings, RunningProxy};

/// Longer than any test takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The proxies in front of an app. Drop stops them.
struct Path {
    /// Description of the proxies.
    name: &'static str,
    /// Address for clients.
    address: SocketAddr,
    _proxies: Vec<RunningProxy>,
}

/// Runs a test through the queue-proxy alone, then through an activator and a queue-proxy, then
/// through an activator alone.
async fn through_each(app: SocketAddr, test: impl AsyncFn(SocketAddr)) {
    let paths = [
        queue_proxy_alone(app).await,
        activator_and_queue_proxy(app).await,
        activator_without_sidecar(app).await,
    ];
    for path in paths {
        // Test output, shown only for a failed test.
        println!("through {}", path.name);
        tokio::time::timeout(DEADLINE, test(path.address)).await.expect(path.name);
    }
}

async fn queue_proxy_alone(app: SocketAddr) -> Path {
    let proxy = support::queue_proxy(setup(app)).await;
    Path { name: "the queue-proxy", address: proxy.address, _proxies: vec![proxy] }
}

async fn activator_and_queue_proxy(app: SocketAddr) -> Path {
    let queue_proxy = support::queue_proxy(setup(app)).await;
    let activator = support::activator(setup(queue_proxy.address)).await;
    Path {
        name: "the activator and the queue-proxy",
        address: activator.address,
        _proxies: vec![activator, queue_proxy],
    }
}

async fn activator_without_sidecar(app: SocketAddr) -> Path {
    let activator = support::activator_without_sidecar(setup(app)).await;
    Path { name: "the activator without a sidecar", address: activator.address, _proxies: vec![activator] }
}

fn setup(app: SocketAddr) -> ProxySettings {
    ProxySettings { app, header_timeout: Duration::from_secs(30), idle_timeout: Duration::from_secs(620) }
}
