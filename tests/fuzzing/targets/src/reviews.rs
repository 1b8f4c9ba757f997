//! Reviews of pods, as any API server that reaches the webhook sends them.

use std::cell::LazyCell;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use clap::Parser;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use json_patch::Patch;
use metrics_adapter::args::Args;
use metrics_adapter::metrics::Metrics;
use metrics_adapter::sidecar_injection::{Webhook, webhook};
use prometheus::Registry;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

pub(crate) const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"null",
    b"{}",
    b"-1",
    b"9223372036854775807",
    b"\"name\":\"queue-proxy\"",
    b"\"autoscaling.rouse.dev/app-first\":\"true\"",
    b"\"restartPolicy\":\"Never\"",
    b"\"initContainers\":[]",
    b"\"initContainers\":null,",
    b"\"lifecycle\":{}",
    b"\"lifecycle\":null",
    b"\"readinessProbe\":{\"tcpSocket\":{\"port\":\"http\"}}",
    b"\"readinessProbe\":{\"grpc\":{\"port\":1}}",
    b"\"terminationGracePeriodSeconds\":-9223372036854775808",
    b"\xff",
];

thread_local! {
    static WEBHOOK: LazyCell<(Runtime, Webhook)> = LazyCell::new(|| {
        let args = Args::try_parse_from(["metrics-adapter", "--sidecar-image", "queue-proxy:v1"]).unwrap();
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let webhook = Webhook::new(args.sidecar.settings(), metrics.sidecar_reviews.clone());
        (Builder::new_current_thread().enable_all().build().unwrap(), webhook)
    });
}

pub(crate) fn check(bytes: &[u8]) {
    let request = Request::post(webhook::PATH).body(Full::new(Bytes::copy_from_slice(bytes))).unwrap();
    WEBHOOK.with(|target| {
        let (runtime, webhook) = &**target;
        runtime.block_on(async {
            let response = webhook.serve(request, IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            if status == StatusCode::OK {
                apply(bytes, &body);
            } else {
                assert_eq!(status, StatusCode::BAD_REQUEST, "{}", body.escape_ascii());
            }
        });
    });
}

/// Fails if the patch of the response does not fit the pod of the request. A request with bytes
/// that are no UTF-8 in a field that the webhook skips has a patch, and is not checked.
fn apply(request: &[u8], response: &[u8]) {
    let response: Value = serde_json::from_slice(response).unwrap();
    assert_eq!(response["response"]["allowed"], true);
    let patch: Option<Vec<u8>> = serde_json::from_value(response["response"]["patch"].clone()).unwrap();
    let Some(patch) = patch else { return };
    let patch: Patch = serde_json::from_slice(&patch).unwrap();
    let Ok(mut request) = serde_json::from_slice::<Value>(request) else { return };
    let Some(pod) = request.pointer_mut("/request/object") else { return };
    json_patch::patch(pod, &patch).unwrap();
}
