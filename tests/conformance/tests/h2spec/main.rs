//! h2spec against both proxies: each case of RFC 9113 and RFC 7541 passes, or is a deviation with a
//! reason.
//!
//! The program is a Go module, which the folder `h2spec` of this crate pins. `make test-h2spec`
//! builds it and names it in the variable `H2SPEC`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod deviations;
mod program;
mod report;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use conformance::runner::{ProxySettings, RunningProxy};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use self::deviations::{ACTIVATOR, Deviation, QUEUE_PROXY};
use self::report::{CaseId, CaseResult};

/// Fewer cases mean that the program has not run them all.
const MIN_CASES: usize = 140;
/// Longer than the program takes to notice that the proxy does not answer at all.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs h2spec; run make test-h2spec"]
async fn queue_proxy_has_only_listed_deviations() {
    let proxy = support::queue_proxy(settings(start_app().await)).await;
    assert_only_listed(&proxy, "queue-proxy", QUEUE_PROXY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs h2spec; run make test-h2spec"]
async fn activator_has_only_listed_deviations() {
    let proxy = support::activator(settings(start_app().await)).await;
    assert_only_listed(&proxy, "activator", ACTIVATOR).await;
}

fn settings(app: SocketAddr) -> ProxySettings {
    ProxySettings { app, header_timeout: HEADER_TIMEOUT, idle_timeout: HEADER_TIMEOUT }
}

/// A deviation that is gone fails as well, so that the list stays true.
async fn assert_only_listed(proxy: &RunningProxy, name: &str, listed: &[Deviation]) {
    let results = program::run(proxy.address, name).await;
    assert!(results.len() >= MIN_CASES, "only {} cases have run", results.len());
    let failed: BTreeSet<&CaseId> =
        results.iter().filter(|result| result.failure.is_some()).map(|result| &result.id).collect();
    let listed: Vec<CaseId> = listed.iter().map(Deviation::id).collect();
    let listed: BTreeSet<&CaseId> = listed.iter().collect();
    let unlisted: Vec<&CaseResult> =
        results.iter().filter(|result| failed.contains(&result.id) && !listed.contains(&result.id)).collect();
    let gone: Vec<_> = listed.difference(&failed).collect();
    assert!(unlisted.is_empty(), "{name}: unlisted deviations: {unlisted:#?}");
    assert!(gone.is_empty(), "{name}: remove these deviations from the list, they pass: {gone:#?}");
}

/// Answers each request with a few bytes, after the request's body.
async fn start_app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                // The program breaks off many of its requests.
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service_fn(respond))
                    .await;
            });
        }
    });
    address
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // hyper sends the body of a response to HEAD over HTTP/2, which is malformed.
    let body: &[u8] = if request.method() == Method::HEAD { b"" } else { b"a response of some bytes" };
    // The client's error is the proxy's to answer.
    let _ = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(body))))
}
