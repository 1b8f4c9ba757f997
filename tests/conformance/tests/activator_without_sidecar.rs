//! The whole table against the activator in front of a pod without a queue-proxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

use conformance::runner::{check, check_http2};
use conformance::table;
use support::{activator_without_sidecar, tcp_activator_without_sidecar};

#[tokio::test]
async fn request_line() {
    check(activator_without_sidecar, table::request_line::rows()).await;
}

#[tokio::test]
async fn headers() {
    check(activator_without_sidecar, table::headers::rows()).await;
}

#[tokio::test]
async fn framing() {
    check(activator_without_sidecar, table::framing::rows()).await;
}

#[tokio::test]
async fn bodies() {
    check(activator_without_sidecar, table::bodies::rows()).await;
}

#[tokio::test]
async fn connections() {
    check(activator_without_sidecar, table::connections::rows()).await;
}

#[tokio::test]
async fn responses() {
    check(activator_without_sidecar, table::responses::rows()).await;
}

#[tokio::test]
async fn hop_by_hop() {
    check(activator_without_sidecar, table::hop_by_hop::rows()).await;
}

#[tokio::test]
async fn forwarding() {
    check(activator_without_sidecar, table::forwarding::rows()).await;
    check_http2(activator_without_sidecar, table::forwarding::http2_rows()).await;
}

#[tokio::test]
async fn upgrades() {
    check(activator_without_sidecar, table::upgrades::rows()).await;
}

#[tokio::test]
async fn uncounted() {
    check(activator_without_sidecar, table::uncounted::rows()).await;
    check_http2(activator_without_sidecar, table::uncounted::http2_rows()).await;
}

#[tokio::test]
async fn slow() {
    check(activator_without_sidecar, table::slow::rows()).await;
}

#[tokio::test]
async fn http2() {
    check_http2(activator_without_sidecar, table::http2::rows()).await;
}

#[tokio::test]
async fn shared_connections() {
    check_http2(activator_without_sidecar, table::http2::shared_connections::upload_rows()).await;
}

#[tokio::test]
async fn grpc_web() {
    check(activator_without_sidecar, table::http2::grpc::web_rows()).await;
}

#[tokio::test]
async fn tcp() {
    check(tcp_activator_without_sidecar, table::tcp::rows()).await;
}

#[tokio::test]
async fn addresses() {
    check(activator_without_sidecar, table::addresses::pod_rows()).await;
    check_http2(activator_without_sidecar, table::addresses::pod_http2_rows()).await;
    check(tcp_activator_without_sidecar, table::addresses::pod_rows()).await;
}

#[tokio::test]
async fn clients_over_ipv6() {
    check(activator_without_sidecar, table::addresses::client_rows()).await;
    check_http2(activator_without_sidecar, table::addresses::client_http2_rows()).await;
    check(tcp_activator_without_sidecar, table::addresses::client_tcp_rows()).await;
}
