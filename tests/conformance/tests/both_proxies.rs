//! Rows whose outcome is the same behind one proxy and behind both.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

use conformance::case::Times;
use conformance::http2::{Http2Case, Http2Step, code};
use conformance::runner::{check, check_http2};
use conformance::table;
use support::{both_proxies, both_tcp_proxies, by_port};

#[tokio::test]
async fn connections() {
    check(both_proxies, table::connections::rows()).await;
}

#[tokio::test]
async fn forwarding() {
    check(both_proxies, table::forwarding::rows()).await;
    check_http2(both_proxies, table::forwarding::http2_rows()).await;
}

#[tokio::test]
async fn grpc() {
    check_http2(both_proxies, table::http2::grpc::rows()).await;
    check(both_proxies, table::http2::grpc::web_rows()).await;
}

#[tokio::test]
async fn shared_connections() {
    check_http2(both_proxies, table::http2::shared_connections::upload_rows()).await;
    check_http2(both_proxies, table::http2::shared_connections::cancelled_rows()).await;
    check_http2(both_proxies, table::http2::shared_connections::response_rows()).await;
}

#[tokio::test]
async fn tcp() {
    check(both_tcp_proxies, table::tcp::rows()).await;
}

#[tokio::test]
async fn addresses() {
    check(|setup| both_proxies(by_port(setup)), table::addresses::sidecar_rows()).await;
    check_http2(|setup| both_proxies(by_port(setup)), table::addresses::sidecar_http2_rows()).await;
    check(|setup| both_tcp_proxies(by_port(setup)), table::addresses::sidecar_rows()).await;
}

#[tokio::test]
async fn clients_over_ipv6() {
    check(both_proxies, table::addresses::client_rows()).await;
    check_http2(both_proxies, table::addresses::client_http2_rows()).await;
    check(both_tcp_proxies, table::addresses::client_tcp_rows()).await;
}

#[tokio::test]
async fn http1() {
    check(both_proxies, table::request_line::rows()).await;
    check(both_proxies, table::framing::rows()).await;
    check(both_proxies, table::hop_by_hop::rows()).await;
}

#[tokio::test]
async fn bodies() {
    check(both_proxies, table::bodies::rows()).await;
}

#[tokio::test]
async fn responses() {
    check(both_proxies, table::responses::rows()).await;
}

#[tokio::test]
async fn upgrades() {
    check(both_proxies, table::upgrades::rows()).await;
}

#[tokio::test]
async fn uncounted() {
    check(both_proxies, table::uncounted::rows()).await;
    let rows = table::uncounted::http2_rows().into_iter().filter(|row| !is_reset(row));
    check_http2(both_proxies, rows.collect()).await;
}

#[tokio::test]
async fn http2() {
    let rows = table::http2::rows().into_iter().filter(|row| row.times == Times::Default && !is_reset(row));
    check_http2(both_proxies, rows.collect()).await;
}

/// Whether a client gets a reset in a row. In a first proxy it overtakes the head and the data
/// that wait there, so the client may get 502 instead.
fn is_reset(row: &Http2Case) -> bool {
    let is_reset = |step: &Http2Step| match step {
        Http2Step::IsCut(_) => true,
        Http2Step::IsReset(_, reason) => *reason != code::NO_ERROR,
        _ => false,
    };
    row.client.iter().any(is_reset)
}
