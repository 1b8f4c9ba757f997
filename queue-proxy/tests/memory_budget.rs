//! One memory budget for all clients: a client that takes all that it can ends neither the sidecar
//! nor the requests of others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use proxy::memory::estimates::{CONNECTION_BYTES, HTTP2_BYTES, STREAM_BYTES};
use support::app::TestApp;
use support::{POD_UID, Sidecar, eventually, proxied, request, send, text, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

const FULL_FOR_CONNECTION: &str = "rouse_queue_proxy_memory_full_total{kind=\"connection\"}";
const FULL_FOR_REQUEST: &str = "rouse_queue_proxy_memory_full_total{kind=\"request\"}";
const CLOSED_IDLE: &str = "rouse_queue_proxy_memory_full_total{kind=\"idle_connection\"}";

/// A budget of so many connections. One client has three quarters of the budget, or two thirds
/// beside another one.
fn budget(connections: u64) -> String {
    format!("--memory-budget={}", connections * CONNECTION_BYTES)
}

/// A connection of another client than the ones of [`send`].
/// An error if it is refused: the reset may arrive before the connection is established.
async fn connect_from_other_address(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind("127.0.0.2:0".parse().unwrap())?;
    within(socket.connect(to)).await
}

async fn http2_from_other_address(to: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(connect_from_other_address(to).await.unwrap());
    let (sender, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn http2_request(path: &str) -> Request<Full<Bytes>> {
    request(&format!("http://web.example{path}"))
}

/// A request of `client` over HTTP/2, as an activator forwards it to the pod with this UID.
fn http2_forwarded(path: &str, client: &str, uid: &str) -> Request<Full<Bytes>> {
    forwarded(&format!("http://web.example{path}"), client, uid)
}

fn forwarded(path: &str, client: &str, uid: &str) -> Request<Full<Bytes>> {
    let mut request = proxied(path, uid);
    request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
    request
}

#[tokio::test]
async fn client_with_many_streams_leaves_another_its_requests() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[&budget(48)]).await;
    let sender = http2_from_other_address(sidecar.at.traffic).await;
    // No other client has connected beside the flood of /wait: that client has three quarters.
    let fits = (36 * CONNECTION_BYTES - CONNECTION_BYTES - HTTP2_BYTES) / STREAM_BYTES;
    let mut streams = JoinSet::new();
    for _ in 0..fits + 20 {
        let mut sender = sender.clone();
        streams.spawn(async move { sender.send_request(http2_request("/wait")).await.unwrap() });
    }
    for _ in 0..20 {
        let refused: Response<Incoming> = within(streams.join_next()).await.unwrap().unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key("retry-after"));
    }
    assert!((sidecar.metric(FULL_FOR_REQUEST).await - 20.0).abs() < 0.5);
    assert_eq!(text(within(sidecar.get("/")).await).await, "ok", "the other client has its share");

    app.open(usize::try_from(fits).unwrap());
    while let Some(response) = within(streams.join_next()).await {
        assert_eq!(text(response.unwrap()).await, "waited");
    }
    let mut sender = sender;
    let after = within(sender.send_request(http2_request("/"))).await.unwrap();
    assert_eq!(after.status(), StatusCode::OK, "streams that ended take no memory");
}

#[tokio::test]
async fn idle_connections_are_closed_for_new_ones() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[&budget(40)]).await;
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.extend(connect_from_other_address(sidecar.at.traffic).await);
    }
    eventually(async || sidecar.metric(CLOSED_IDLE).await >= 30.0).await;
    let mut last = connect_from_other_address(sidecar.at.traffic).await.unwrap();
    within(last.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")).await.unwrap();
    assert_eq!(within(last.read_u8()).await.unwrap(), b'H');
}

#[tokio::test]
async fn client_with_many_connections_of_tcp_leaves_another_its_connection() {
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let app = echo.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        loop {
            let (mut stream, _) = echo.accept().await.unwrap();
            let _ = stream.write_all(b"hello").await;
            open.push(stream);
        }
    });
    let sidecar = Sidecar::start(app, &[&budget(40), "--protocol=tcp"]).await;
    let mut flood = Vec::new();
    for _ in 0..60 {
        flood.extend(connect_from_other_address(sidecar.at.traffic).await);
    }
    eventually(async || sidecar.metric(FULL_FOR_CONNECTION).await >= 30.0).await;
    let mut other = within(TcpStream::connect(sidecar.at.traffic)).await.unwrap();
    assert_eq!(within(other.read_u8()).await.unwrap(), b'h');
}

#[tokio::test]
async fn tunnel_keeps_its_memory_until_it_closes() {
    let app = TestApp::start().await;
    // One connection and its tunnel fit in three quarters.
    let sidecar = Sidecar::start(app.address, &[&budget(4)]).await;
    let mut upgrade = request("/upgrade");
    upgrade.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    upgrade.headers_mut().insert("upgrade", "echo".parse().unwrap());
    let attempt = async || {
        let stream = TokioIo::new(TcpStream::connect(sidecar.at.traffic).await.ok()?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        // A connection that does not fit is closed, a request that does not fit gets 503.
        let mut response = sender.send_request(upgrade.clone()).await.ok()?;
        hyper::upgrade::on(&mut response).await.ok()
    };
    let mut tunnels = Vec::new();
    // A connection keeps its memory until shortly after its switch.
    while tunnels.len() < 2 {
        tunnels.extend(within(attempt()).await);
    }
    for _ in 0..5 {
        assert!(within(attempt()).await.is_none(), "two tunnels leave memory for a connection alone");
    }
    drop(tunnels);
    eventually(async || attempt().await.is_some()).await;
}

#[tokio::test]
async fn clients_of_one_activator_have_shares_of_their_own_for_streams() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[&budget(48), "--pod-uid", POD_UID]).await;
    let sender = http2_from_other_address(sidecar.at.traffic).await;
    let mut flood = JoinSet::new();
    for _ in 0..80 {
        let mut sender = sender.clone();
        let request = http2_forwarded("/wait", "10.0.0.1", POD_UID);
        flood.spawn(async move { sender.send_request(request).await.unwrap() });
    }
    let refused = within(flood.join_next()).await.unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let mut sender = sender;
    let other = within(sender.send_request(http2_forwarded("/", "10.0.0.2", POD_UID))).await.unwrap();
    assert_eq!(text(other).await, "ok");
}

#[tokio::test]
async fn clients_of_one_activator_have_shares_of_their_own_for_connections() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[&budget(40), "--pod-uid", POD_UID]).await;
    let mut flood = JoinSet::new();
    for number in 0..60 {
        flood.spawn(send(sidecar.at.traffic, forwarded("/wait", "10.0.0.1", POD_UID)));
        eventually(async || {
            let in_flight = sidecar.metric("rouse_queue_proxy_requests_in_flight").await;
            in_flight + sidecar.metric(FULL_FOR_REQUEST).await > f64::from(number)
        })
        .await;
    }
    let refused = within(flood.join_next()).await.unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    for _ in 0..20 {
        let other = within(send(sidecar.at.traffic, forwarded("/", "10.0.0.2", POD_UID))).await;
        assert_eq!(text(other).await, "ok");
    }
}

#[tokio::test]
async fn clients_that_name_others_take_their_own_memory() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[&budget(48), "--pod-uid", POD_UID]).await;
    let sender = http2_from_other_address(sidecar.at.traffic).await;
    let mut flood = JoinSet::new();
    for number in 0..100 {
        let mut sender = sender.clone();
        let mut request = http2_request("/wait");
        request.headers_mut().insert("x-forwarded-for", format!("10.0.0.{number}").parse().unwrap());
        flood.spawn(async move { sender.send_request(request).await.unwrap() });
    }
    let refused = within(flood.join_next()).await.unwrap().unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(text(within(sidecar.get("/")).await).await, "ok");
}
