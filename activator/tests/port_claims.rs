//! Two workloads whose ServerlessServices claim one port.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER, WORKLOAD_HEADER};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use support::{Harness, ReceivedResponse, client, eventually};

/// The workload to which the harness' port leads; `None` while it is closed.
async fn workload_of_port(harness: &Harness) -> Option<String> {
    let probe = Request::get(harness.url("/")).header(PROBE_HEADER, PROBE_ACTIVATOR);
    let probe = probe.body(Full::<Bytes>::default()).unwrap();
    let response = ReceivedResponse::of(client().request(probe).await.ok()?).await;
    Some(response.header(WORKLOAD_HEADER).to_owned())
}

#[tokio::test]
async fn first_claim_keeps_the_port_until_it_ends() {
    let harness = Harness::start().await;
    harness.another_at("thief", harness.port).await;
    // Its port opens after the change before it is applied.
    harness.another("witness-1").await;
    for _ in 0..20 {
        assert_eq!(workload_of_port(&harness).await.as_deref(), Some("shop/web"));
    }
    harness.adapt(|workload| workload.ports.clear()).await;
    eventually("the other claim has the port", || async {
        workload_of_port(&harness).await.as_deref() == Some("shop/thief")
    })
    .await;
    // It comes back, behind the claim that lasted.
    harness.adapt(|_| {}).await;
    harness.another_at("last", harness.port).await;
    harness.another("witness-2").await;
    assert_eq!(workload_of_port(&harness).await.as_deref(), Some("shop/thief"));
}
