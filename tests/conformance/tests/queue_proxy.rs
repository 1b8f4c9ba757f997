//! The whole table against the queue-proxy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

use conformance::runner::{check, check_http2};
use conformance::table;
use support::{by_port, queue_proxy, tcp_queue_proxy};

#[tokio::test]
async fn request_line() {
    check(queue_proxy, table::request_line::rows()).await;
}

#[tokio::test]
async fn headers() {
    check(queue_proxy, table::headers::rows()).await;
}

#[tokio::test]
async fn framing() {
    check(queue_proxy, table::framing::rows()).await;
}

#[tokio::test]
async fn bodies() {
    check(queue_proxy, table::bodies::rows()).await;
}

#[tokio::test]
async fn connections() {
    check(queue_proxy, table::connections::rows()).await;
}

#[tokio::test]
async fn responses() {
    check(queue_proxy, table::responses::rows()).await;
}

#[tokio::test]
async fn hop_by_hop() {
    check(queue_proxy, table::hop_by_hop::rows()).await;
}

#[tokio::test]
async fn forwarding() {
    check(queue_proxy, table::forwarding::rows()).await;
    check_http2(queue_proxy, table::forwarding::http2_rows()).await;
}

#[tokio::test]
async fn upgrades() {
    check(queue_proxy, table::upgrades::rows()).await;
}

#[tokio::test]
async fn uncounted() {
    check(queue_proxy, table::uncounted::rows()).await;
    check_http2(queue_proxy, table::uncounted::http2_rows()).await;
}

#[tokio::test]
async fn slow() {
    check(queue_proxy, table::slow::rows()).await;
}

#[tokio::test]
async fn http2() {
    check_http2(queue_proxy, table::http2::rows()).await;
}

#[tokio::test]
async fn shared_connections() {
    check_http2(queue_proxy, table::http2::shared_connections::upload_rows()).await;
}

#[tokio::test]
async fn grpc_web() {
    check(queue_proxy, table::http2::grpc::web_rows()).await;
}

#[tokio::test]
async fn tcp() {
    check(tcp_queue_proxy, table::tcp::rows()).await;
}

#[tokio::test]
async fn addresses() {
    check(|setup| queue_proxy(by_port(setup)), table::addresses::sidecar_rows()).await;
    check_http2(|setup| queue_proxy(by_port(setup)), table::addresses::sidecar_http2_rows()).await;
    check(|setup| tcp_queue_proxy(by_port(setup)), table::addresses::sidecar_rows()).await;
}

#[tokio::test]
async fn clients_over_ipv6() {
    check(queue_proxy, table::addresses::client_rows()).await;
    check_http2(queue_proxy, table::addresses::client_http2_rows()).await;
    check(tcp_queue_proxy, table::addresses::client_tcp_rows()).await;
}
