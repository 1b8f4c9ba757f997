//! Clients and apps that people use, through the queue-proxy, and through an activator in front of
//! it as on a cluster.
//!
//! The table says what single messages must look like; here libraries and programs that share
//! nothing with it talk for as long as they like, in both directions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod app;
mod backpressure;
mod caller;
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

/// More than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The proxies in front of an app; they end when this is dropped.
struct Path {
    /// What it leads through.
    name: &'static str,
    /// Where callers go.
    address: SocketAddr,
    _proxies: Vec<RunningProxy>,
}

/// Runs a test through the queue-proxy, and through both.
async fn through_both(app: SocketAddr, test: impl AsyncFn(SocketAddr)) {
    for path in [sidecar(app).await, activator_and_sidecar(app).await] {
        // Shown with a failure only.
        println!("through {}", path.name);
        tokio::time::timeout(DEADLINE, test(path.address)).await.expect(path.name);
    }
}

async fn sidecar(app: SocketAddr) -> Path {
    let proxy = support::queue_proxy(setup(app)).await;
    Path { name: "the queue-proxy", address: proxy.address, _proxies: vec![proxy] }
}

async fn activator_and_sidecar(app: SocketAddr) -> Path {
    let sidecar = support::queue_proxy(setup(app)).await;
    let activator = support::activator(setup(sidecar.address)).await;
    Path {
        name: "the activator and the queue-proxy",
        address: activator.address,
        _proxies: vec![activator, sidecar],
    }
}

fn setup(app: SocketAddr) -> ProxySettings {
    ProxySettings { app, header_timeout: Duration::from_secs(30) }
}
