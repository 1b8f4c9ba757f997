//! Attacks by HTTP/1.1 requests.

use std::fmt::Write as _;

use autoscaler::contract::{
    ACTIVATOR_HEADER, DECISIONS_PATH, FORWARD_PATH, PROBE_ACTIVATOR, PROBE_HEADER, PROBE_QUEUE_PROXY,
    PROXIED_HEADER, PUSH_PATH, SLOTS_PATH, TUNNEL_PATH, TUNNEL_PROTOCOL, WORKLOAD_HEADER,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};

use super::{BATCH_PAUSE, drain};
use crate::connector::Connection;
use crate::tally::Tally;

/// Header lines in one write.
const BATCH_LINES: usize = 64;
/// Paths that authenticate their callers by token.
const TOKEN_PATHS: [&str; 5] = [
    PUSH_PATH,
    DECISIONS_PATH,
    FORWARD_PATH,
    SLOTS_PATH,
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/concurrency",
];
/// The webhook for the sidecar.
const WEBHOOK_PATH: &str = "/mutate-pods";
/// With one container more, or some hundred variables in all, the webhook rejects a review before
/// it decodes it.
const REVIEWED_CONTAINERS: usize = 500;
const REVIEWED_VARIABLES: usize = 48;
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

pub(crate) async fn header_flood(connection: Box<dyn Connection>, tally: &Tally) {
    let line = "X-Hostile: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    let request = "GET / HTTP/1.1\r\nHost: hostile\r\n";
    repeat(connection, request, &line.repeat(BATCH_LINES), BATCH_LINES as u64, tally).await;
}

/// Each token is one that no cache has.
pub(crate) async fn tokens(mut connection: Box<dyn Connection>, tally: &Tally, client: usize) {
    for path in TOKEN_PATHS.iter().cycle() {
        let token: u128 = rand::random();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: hostile\r\nAuthorization: Bearer {client}.{token:x}\r\n{UPGRADE}\r\n"
        );
        if !exchange(&mut connection, &request, tally).await {
            return;
        }
    }
}

/// Headers and paths with which our parts address each other.
pub(crate) async fn spoofed_headers(mut connection: Box<dyn Connection>, tally: &Tally) {
    let spoofed = [
        ("/", vec![(PROXIED_HEADER, "1")]),
        ("/", vec![(PROXIED_HEADER, "activator"), ("x-forwarded-for", "10.244.0.1")]),
        ("/", vec![(PROBE_HEADER, PROBE_QUEUE_PROXY)]),
        ("/", vec![(PROBE_HEADER, PROBE_ACTIVATOR)]),
        ("/", vec![(WORKLOAD_HEADER, "default/other"), (ACTIVATOR_HEADER, "10.244.0.1:8081")]),
        ("/wait-for-drain", Vec::new()),
        (TUNNEL_PATH, vec![("connection", "upgrade"), ("upgrade", TUNNEL_PROTOCOL)]),
    ];
    for (path, headers) in spoofed.iter().cycle() {
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: hostile\r\n");
        for (name, value) in headers {
            // Writing to a String cannot fail.
            let _ = write!(request, "{name}: {value}\r\n");
        }
        request.push_str("\r\n");
        if !exchange(&mut connection, &request, tally).await {
            return;
        }
    }
}

/// Pods of as many containers, and variables of them, as the webhook for the sidecar decodes: each
/// takes two bytes of the review, and some hundreds after decoding.
pub(crate) async fn reviews(connection: Box<dyn Connection>, tally: &Tally) {
    let variables = vec!["{}"; REVIEWED_VARIABLES].join(",");
    let containers = vec![format!(r#"{{"env":[{variables}]}}"#); REVIEWED_CONTAINERS].join(",");
    let review = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"1",
        "kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},
        "operation":"CREATE","namespace":"shop","userInfo":{{}},"object":{{"apiVersion":"v1","kind":"Pod",
        "metadata":{{"name":"web"}},"spec":{{"containers":[{containers}]}}}}}}}}"#
    );
    let request = format!(
        "POST {WEBHOOK_PATH} HTTP/1.1\r\nHost: hostile\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{review}",
        review.len()
    );
    repeat(connection, "", &request, 1, tally).await;
}

/// Writes `start`, and then batches until the peer ends the connection. Responses are discarded.
async fn repeat(connection: Box<dyn Connection>, start: &str, batch: &str, batch_size: u64, tally: &Tally) {
    let (read, mut write) = split(connection);
    let flood = async {
        if write.write_all(start.as_bytes()).await.is_err() {
            return;
        }
        while write.write_all(batch.as_bytes()).await.is_ok() && write.flush().await.is_ok() {
            tally.add_sent(batch_size);
            tokio::time::sleep(BATCH_PAUSE).await;
        }
    };
    tokio::select! {
        () = flood => {}
        () = drain(read, tally) => {}
    }
}

/// Sends a request and reads the first bytes of its response; false at the end of the connection.
async fn exchange(connection: &mut Box<dyn Connection>, request: &str, tally: &Tally) -> bool {
    let mut buffer = [0; 4096];
    if connection.write_all(request.as_bytes()).await.is_err() || connection.flush().await.is_err() {
        return false;
    }
    tally.add_sent(1);
    let Ok(1..) = connection.read(&mut buffer).await else { return false };
    tally.add_received();
    tokio::time::sleep(BATCH_PAUSE).await;
    true
}
