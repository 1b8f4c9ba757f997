//! Rows whose outcome is the same behind one proxy and behind both.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

use conformance::runner::{check, check_http2};
use conformance::table;
use support::both_proxies;

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
}
