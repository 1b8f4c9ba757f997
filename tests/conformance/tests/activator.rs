//! The whole table against the activator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

use conformance::runner::{check, check_http2};
use conformance::table;
use support::activator;

#[tokio::test]
async fn request_line() {
    check(activator, table::request_line::rows()).await;
}

#[tokio::test]
async fn headers() {
    check(activator, table::headers::rows()).await;
}

#[tokio::test]
async fn framing() {
    check(activator, table::framing::rows()).await;
}

#[tokio::test]
async fn bodies() {
    check(activator, table::bodies::rows()).await;
}

#[tokio::test]
async fn connections() {
    check(activator, table::connections::rows()).await;
}

#[tokio::test]
async fn responses() {
    check(activator, table::responses::rows()).await;
}

#[tokio::test]
async fn hop_by_hop() {
    check(activator, table::hop_by_hop::rows()).await;
}

#[tokio::test]
async fn forwarding() {
    check(activator, table::forwarding::rows()).await;
    check_http2(activator, table::forwarding::http2_rows()).await;
}

#[tokio::test]
async fn upgrades() {
    check(activator, table::upgrades::rows()).await;
}

#[tokio::test]
async fn uncounted() {
    check(activator, table::uncounted::rows()).await;
    check_http2(activator, table::uncounted::http2_rows()).await;
}

#[tokio::test]
async fn slow() {
    check(activator, table::slow::rows()).await;
}

#[tokio::test]
async fn http2() {
    check_http2(activator, table::http2::rows()).await;
}

#[tokio::test]
async fn grpc_web() {
    check(activator, table::http2::grpc::web_rows()).await;
}

#[tokio::test]
async fn addresses() {
    check(activator, table::addresses::pod_rows()).await;
    check_http2(activator, table::addresses::pod_http2_rows()).await;
}

#[tokio::test]
async fn clients_over_ipv6() {
    check(activator, table::addresses::client_rows()).await;
    check_http2(activator, table::addresses::client_http2_rows()).await;
}
