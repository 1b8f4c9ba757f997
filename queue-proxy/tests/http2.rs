//! Requests that share an HTTP/2 connection must not stop each other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Version};
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use support::app::TestApp;
use support::{Sidecar, text, within};
use tokio::net::TcpStream;

const UPLOAD: usize = 2 << 20;

async fn connect(sidecar: &Sidecar, builder: &http2::Builder<TokioExecutor>) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(TcpStream::connect(sidecar.at.traffic).await.unwrap());
    let (sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn post(path: &str, bytes: usize) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://web.example{path}")).version(Version::HTTP_2);
    request.body(Full::from(vec![b'x'; bytes])).unwrap()
}

#[tokio::test]
async fn waiting_upload_leaves_window_to_the_running_one() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--container-concurrency=1"]).await;
    let client = connect(&sidecar, &http2::Builder::new(TokioExecutor::new())).await;
    let uploads = (0..4).map(|_| {
        let mut client = client.clone();
        async move { text(client.send_request(post("/count", UPLOAD)).await.unwrap()).await }
    });
    for counted in within(join_all(uploads)).await {
        assert_eq!(counted, UPLOAD.to_string());
    }
}

#[tokio::test]
async fn idle_connection_closes_although_its_client_answers_pings() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--header-timeout=200ms"]).await;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    // Frames of the client's own are not requests.
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_millis(20))
        .keep_alive_while_idle(true);
    let mut used = connect(&sidecar, &builder).await;
    assert_eq!(text(within(used.send_request(post("/count", 3))).await.unwrap()).await, "3");
    for client in [used, connect(&sidecar, &builder).await] {
        within(async {
            while !client.is_closed() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn connection_with_a_running_request_is_not_idle() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--header-timeout=50ms"]).await;
    let mut client = connect(&sidecar, &http2::Builder::new(TokioExecutor::new())).await;
    let waiting = tokio::spawn(client.send_request(post("/wait", 0)));
    sidecar.holds(1.0, 0.0).await;
    // Many times the idle timeout.
    tokio::time::sleep(Duration::from_millis(500)).await;
    app.open(1);
    assert_eq!(text(within(waiting).await.unwrap().unwrap()).await, "waited");
}
