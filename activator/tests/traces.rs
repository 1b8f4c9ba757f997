//! Spans of held requests, as a collector receives them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use autoscaler::settings::Pause;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use activator::traces::settings::TraceSettings;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use support::collector::{Collector, hex, settings, text, time};
use support::pod::FakePod;
use support::receiver::Receiver;
use support::{Harness, client, eventually, within};
use tokio::net::TcpListener;

const POD: &str = "127.0.0.2";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const STATE: &str = "rojo=00f067aa0ba902b7";

fn request(harness: &Harness, flags: &str) -> Request<Full<Bytes>> {
    Request::get(harness.url("/cart?secret=1"))
        .header("traceparent", format!("00-{TRACE}-{CALLER}-{flags}"))
        .header("tracestate", STATE)
        .body(Full::default())
        .unwrap()
}

fn span<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut named = spans.iter().filter(|span| span.name == name);
    let found = named.next().unwrap_or_else(|| panic!("no span {name} in {spans:#?}"));
    assert!(named.next().is_none(), "two spans {name}");
    found
}

fn header(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

fn status(span: &Span) -> StatusCode {
    span.status.as_ref().map_or(StatusCode::Unset, |status| status.code())
}

async fn wake(harness: &Harness) -> FakePod {
    harness.until_held(1).await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    pod
}

#[tokio::test]
async fn held_request_has_spans_of_its_wake_below_the_callers_span() {
    let collector = Collector::start().await;
    let harness = Harness::with_traces(settings(collector.address, "", 0.0)).await;
    let receiver = Receiver::start().await;
    harness.receivers.send_replace(BTreeSet::from([receiver.address]));
    eventually("the receiver is connected", || async {
        harness.metric("rouse_activator_push_connections") == 1.0
    })
    .await;
    let before = std::time::UNIX_EPOCH + component_base::clock::since_epoch();
    let response = harness.send(request(&harness, "01"));
    harness.until_held(1).await;
    harness.pod_starting(POD, false).await;
    harness.pod_starting(POD, true).await;
    let _pod = wake(&harness).await;
    let response = within("response", response).await.unwrap();

    let spans = collector.spans(8).await;
    let [server, hold, forward] = ["GET", "hold", "forward"].map(|name| span(&spans, name));
    assert_eq!(response.header("traceparent"), header(forward), "the app's spans are below");
    assert_eq!(response.header("tracestate"), STATE);
    assert_eq!((server.kind(), forward.kind()), (SpanKind::Server, SpanKind::Client));
    assert_eq!(hex(&server.parent_span_id), CALLER);
    assert_eq!((&hold.parent_span_id, &forward.parent_span_id), (&server.span_id, &server.span_id));
    let mut previous = hold.start_time_unix_nano;
    for phase in ["poke", "create", "schedule", "start", "probe"].map(|name| span(&spans, name)) {
        assert_eq!(phase.parent_span_id, hold.span_id, "{}", phase.name);
        assert!(phase.start_time_unix_nano >= hold.start_time_unix_nano, "{}", phase.name);
        assert!(previous < phase.end_time_unix_nano, "{}", phase.name);
        previous = phase.end_time_unix_nano;
    }
    assert!(previous <= hold.end_time_unix_nano);
    assert_eq!(hold.end_time_unix_nano, forward.start_time_unix_nano);
    assert_eq!(forward.end_time_unix_nano, server.end_time_unix_nano);
    let after = std::time::UNIX_EPOCH + component_base::clock::since_epoch();
    assert!(before <= time(server.start_time_unix_nano) && time(server.end_time_unix_nano) <= after);
    for span in &spans {
        assert_eq!((hex(&span.trace_id).as_str(), span.trace_state.as_str()), (TRACE, STATE));
        assert_eq!(status(span), StatusCode::Unset);
    }
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/cart"),
        ("http.response.status_code", "200"),
        ("k8s.namespace.name", "shop"),
        ("rouse.workload", "web"),
        ("rouse.held", "true"),
    ] {
        assert_eq!(text(&server.attributes, key), value, "{key}");
    }
    assert_eq!(text(&forward.attributes, "network.peer.address"), POD);
    assert_eq!(collector.resource("service.name"), "rouse-activator");
    assert_eq!(collector.resource("k8s.pod.name"), "activator-1");
    let counted = || async { harness.metric("rouse_activator_spans_total") == 8.0 };
    eventually("they are counted", counted).await;
}

#[tokio::test]
async fn sampler_selects_roots_only_if_they_are_held() {
    let collector = Collector::start().await;
    let harness = Harness::with_traces(settings(collector.address, "parentbased_always_on", 0.0)).await;
    let held = harness.get("/");
    let _pod = wake(&harness).await;
    let held = within("response", held).await.unwrap();
    let spans = collector.spans(4).await;
    let server = span(&spans, "GET");
    assert!(server.parent_span_id.is_empty(), "it is the root");
    assert_eq!(held.header("traceparent"), header(span(&spans, "forward")));

    let at_once = within("response", harness.get("/")).await.unwrap();
    assert_eq!(at_once.header("traceparent"), "", "it was not held");
    let sampled = within("response", harness.send(request(&harness, "01"))).await.unwrap();
    assert!(sampled.header("traceparent").starts_with(&format!("00-{TRACE}-")));
    let spans = collector.spans(6).await;
    let server = spans.iter().find(|span| hex(&span.parent_span_id) == CALLER).unwrap();
    assert_eq!(text(&server.attributes, "rouse.held"), "false");
}

#[tokio::test]
async fn unsampled_request_keeps_its_headers_and_has_no_spans() {
    let collector = Collector::start().await;
    let harness = Harness::with_traces(settings(collector.address, "parentbased_always_on", 0.0)).await;
    let unsampled = harness.send(request(&harness, "00"));
    let _pod = wake(&harness).await;
    let unsampled = within("response", unsampled).await.unwrap();
    assert_eq!(unsampled.header("traceparent"), format!("00-{TRACE}-{CALLER}-00"));
    assert_eq!(unsampled.header("tracestate"), STATE);
    // The next trace is alone, so the request before has none.
    within("response", harness.send(request(&harness, "01"))).await.unwrap();
    collector.spans(2).await;
}

#[tokio::test]
async fn request_without_a_pod_has_the_reason_at_its_hold() {
    let collector = Collector::start().await;
    let harness = Harness::with_traces(settings(collector.address, "", 0.0)).await;
    let deleted = harness.send(request(&harness, "01"));
    harness.until_held(1).await;
    harness.adapt(|workload| workload.pause = Pause::On).await;
    assert_eq!(within("response", deleted).await.unwrap().problem()["reason"], "Paused");
    let spans = collector.spans(2).await;
    for span in ["GET", "hold"].map(|name| span(&spans, name)) {
        assert_eq!(
            (status(span), text(&span.attributes, "error.type").as_str()),
            (StatusCode::Error, "Paused")
        );
    }
    assert_eq!(text(&span(&spans, "GET").attributes, "http.response.status_code"), "503");
}

#[tokio::test]
async fn client_that_disconnects_in_the_hold_ends_its_trace() {
    let collector = Collector::start().await;
    let harness = Harness::with_traces(settings(collector.address, "always_on", 0.0)).await;
    let request = request(&harness, "00");
    let leaving = tokio::spawn(async move { client().request(request).await });
    harness.until_held(1).await;
    leaving.abort();
    harness.until_held(0).await;
    let spans = collector.spans(2).await;
    assert_eq!(text(&span(&spans, "hold").attributes, "error.type"), "ClientDisconnected");
}

#[tokio::test]
async fn client_that_samples_all_requests_gets_no_more_than_the_rate() {
    let collector = Collector::start().await;
    let one =
        TraceSettings { traces_per_second: 1.try_into().unwrap(), ..settings(collector.address, "", 0.0) };
    let harness = Harness::with_traces(one).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut unchanged = 0;
    let mut sent = 0;
    // More than one each second, for longer than a second or not.
    while unchanged < 5 {
        let response = within("response", harness.send(request(&harness, "01"))).await.unwrap();
        assert_eq!(response.status(), 200);
        sent += 1;
        let header = response.header("traceparent");
        unchanged += usize::from(header == format!("00-{TRACE}-{CALLER}-01"));
    }
    assert_eq!(harness.metric("rouse_activator_traces_over_rate_total"), unchanged as f64);
    collector.spans(2 * (sent - unchanged)).await;
}

#[tokio::test]
async fn unreachable_collector_delays_no_request_and_its_spans_are_counted() {
    // Connections to this port are refused.
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let harness = Harness::with_traces(settings(address, "", 0.0)).await;
    let response = harness.send(request(&harness, "01"));
    let _pod = wake(&harness).await;
    assert_eq!(within("response", response).await.unwrap().status(), 200);
    eventually("the spans are counted", || async { harness.metric("rouse_activator_spans_total") >= 4.0 })
        .await;
}

#[tokio::test]
async fn silent_collector_fills_the_queue_and_further_spans_are_dropped() {
    // Accepts connections by its backlog and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = TraceSettings {
        traces_per_second: 1_000_000.try_into().unwrap(),
        ..settings(silent.local_addr().unwrap(), "", 0.0)
    };
    let harness = Harness::with_traces(settings).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let client = client();
    // Two spans each: the batch of 512 that is sent, the queue of 2048, and more. A request that
    // waited for the collector would take ten seconds.
    let sends = async {
        for _ in 0..1500 {
            assert_eq!(client.request(request(&harness, "01")).await.unwrap().status(), 200);
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), sends).await.is_ok());
    assert!(harness.metric("rouse_activator_spans_total") > 0.0, "dropped");
}

#[tokio::test]
async fn collector_with_a_certificate_of_the_given_ca_gets_spans_by_https() {
    let (collector, certificate) = Collector::with_tls().await;
    let file = std::env::temp_dir().join(format!("traces-ca-{}.pem", std::process::id()));
    std::fs::write(&file, certificate).unwrap();
    let url = format!("https://localhost:{}/v1/traces", collector.address.port());
    let https = TraceSettings {
        endpoint: url.parse().unwrap(),
        certificate: Some(file.clone()),
        ..settings(collector.address, "", 0.0)
    };
    let harness = Harness::with_traces(https).await;
    std::fs::remove_file(file).unwrap();
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    within("response", harness.send(request(&harness, "01"))).await.unwrap();
    collector.spans(2).await;
}

#[tokio::test]
async fn stop_exports_spans_that_wait() {
    let collector = Collector::start().await;
    let harness = Harness::with_traces(settings(collector.address, "", 0.0)).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    within("response", harness.send(request(&harness, "01"))).await.unwrap();
    harness.stop.cancel();
    within("the end", harness.running).await.unwrap();
    collector.spans(2).await;
}
