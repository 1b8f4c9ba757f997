//! Floods over loopback. Attackers use addresses of their own in 127.0.0.0/8.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
const ATTACKER: [u8; 4] = [127, 0, 0, 2];
const KUBELET: [u8; 4] = [127, 0, 0, 3];

const BOUNDS: ConnectionBounds = ConnectionBounds { total: 16, per_peer: 8, authenticated: 0 };

async fn respond(_: Request<Incoming>) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from("ok")))
}

async fn server(limits: ServerLimits) -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(serve(listener, respond, limits, CancellationToken::new()));
    (address, AbortOnDropHandle::new(task))
}

async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    timeout(DEADLINE, socket.connect(to)).await.unwrap().unwrap()
}

async fn probe(from: [u8; 4], to: SocketAddr) -> String {
    let mut stream = connect(from, to).await;
    let request = b"GET /live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut response = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut response)).await.unwrap().unwrap();
    response.lines().next().unwrap_or_default().to_owned()
}

async fn closed(stream: &mut TcpStream) {
    let mut read = Vec::new();
    // A reset is as good.
    let _ = timeout(DEADLINE, stream.read_to_end(&mut read)).await.expect("the connection is open");
}

#[tokio::test]
async fn idle_connections_of_one_peer_leave_room_for_others() {
    let (address, _server) = server(ServerLimits { connections: BOUNDS, ..ServerLimits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..4 * BOUNDS.total {
        idle.push(connect(ATTACKER, address).await);
    }
    assert_eq!(probe(KUBELET, address).await, "HTTP/1.1 200 OK");
    assert_eq!(probe(ATTACKER, address).await, "HTTP/1.1 200 OK");
    let excess = idle.len() - BOUNDS.per_peer;
    for stream in &mut idle[..excess] {
        closed(stream).await;
    }
}

#[tokio::test]
async fn idle_connections_of_many_peers_leave_room_for_others() {
    let (address, _server) = server(ServerLimits { connections: BOUNDS, ..ServerLimits::default() }).await;
    let mut idle = Vec::new();
    for last in 10..10 + 4 * u8::try_from(BOUNDS.total).unwrap() {
        idle.push(connect([127, 0, 0, last], address).await);
    }
    assert_eq!(probe(KUBELET, address).await, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn closes_idle_and_dripping_connections() {
    let short = Duration::from_millis(50);
    let limits = ServerLimits { header_read_timeout: short, idle_timeout: short, ..ServerLimits::default() };
    let (address, _server) = server(limits).await;
    for first in [b"".as_slice(), b"GET / HT", b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut stream = connect(ATTACKER, address).await;
        stream.write_all(first).await.unwrap();
        closed(&mut stream).await;
    }
}

#[tokio::test]
async fn serves_http2_only_where_it_is_enabled() {
    for (http2, expected) in [(None, false), (Some(Http2Limits { max_streams: 8, ping: DEADLINE }), true)] {
        let (address, _server) = server(ServerLimits { http2, ..ServerLimits::default() }).await;
        let mut stream = connect(KUBELET, address).await;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut frame = [0; 9];
        let read = timeout(DEADLINE, stream.read_exact(&mut frame)).await.unwrap();
        // A SETTINGS frame.
        assert_eq!(read.is_ok_and(|_| frame[3] == 4), expected);
    }
}

#[tokio::test]
async fn http2_pings_do_not_keep_connection_open() {
    let http2 = Some(Http2Limits { max_streams: 8, ping: DEADLINE });
    let short = Duration::from_millis(100);
    let limits = ServerLimits { header_read_timeout: short, http2, ..ServerLimits::default() };
    let (address, _server) = server(limits).await;
    let (mut reader, mut writer) = connect(ATTACKER, address).await.into_split();
    writer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let ping = async {
        while writer.write_all(b"\0\0\x08\x06\0\0\0\0\0pingping").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let read = async {
        let mut all = Vec::new();
        let _ = reader.read_to_end(&mut all).await;
    };
    timeout(DEADLINE, async { tokio::join!(ping, read) }).await.expect("closed though PINGs arrive");
}

#[tokio::test]
async fn accepted_connections_have_keepalive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = BoundedListener::new(listener, BOUNDS);
    let (_client, (stream, _slot)) = tokio::join!(connect(KUBELET, address), listener.accept());
    assert!(socket2::SockRef::from(&stream).keepalive().unwrap());
}

#[tokio::test]
async fn request_of_a_client_that_waits_to_be_accepted_at_the_stop_is_served() {
    for http2 in [None, Some(Http2Limits { max_streams: 8, ping: DEADLINE })] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = connect(KUBELET, listener.local_addr().unwrap()).await;
        let stop = CancellationToken::new();
        stop.cancel();
        let limits = ServerLimits { http2, drain_timeout: DEADLINE, ..ServerLimits::default() };
        let server = tokio::spawn(serve(listener, respond, limits, stop));
        client.write_all(b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut response = String::new();
        timeout(DEADLINE, client.read_to_string(&mut response)).await.unwrap().unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        server.await.unwrap();
    }
}
