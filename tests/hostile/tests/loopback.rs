//! Each attack against small servers on loopback: it arrives as it is meant, and goes on when the
//! server ends its connections.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::stats::datagram::StatQuery;
use bytes::Bytes;
use hostile::{Attack, AttackCommand};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;

/// Longer than any test takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// Enough for three connections.
const SHORT: Duration = Duration::from_secs(2);

fn command(attack: Attack, target: SocketAddr, duration: Duration) -> AttackCommand {
    AttackCommand { attack, target, tls: false, connections: 3, duration }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("in time")
}

/// Attacks until `observed` returns.
async fn attack_until<T>(attack: Attack, target: SocketAddr, observed: impl Future<Output = T>) -> T {
    within(async {
        tokio::select! {
            report = hostile::run(command(attack, target, DEADLINE)) => panic!("ended: {report:?}"),
            observed = observed => observed,
        }
    })
    .await
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

/// A server of both versions of HTTP that defends itself as hyper does.
struct Server {
    address: SocketAddr,
    /// The value of a header of each request.
    requests: mpsc::UnboundedReceiver<String>,
    /// One value for each connection.
    connections: mpsc::UnboundedReceiver<()>,
}

async fn serve(header: &'static str) -> Server {
    let (listener, address) = listen().await;
    let (values, requests) = mpsc::unbounded_channel();
    let (accepted, connections) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, values) = (accept(&listener).await, values.clone());
            // A test may have dropped the receivers that it does not use.
            let _ = accepted.send(());
            let service = service_fn(move |request: Request<Incoming>| {
                let value = request.headers().get(header).map(|value| value.to_str().unwrap().to_owned());
                let _ = values.send(value.unwrap_or_default());
                async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) }
            });
            tokio::spawn(async move {
                let mut server = auto::Builder::new(TokioExecutor::new());
                server.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_millis(100));
                // Most connections end with an error.
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Server { address, requests, connections }
}

#[tokio::test]
async fn idle_clients_send_nothing_and_reconnect() {
    let (listener, target) = listen().await;
    attack_until(Attack::Idle, target, async {
        // More than there are clients.
        for _ in 0..5 {
            let mut stream = accept(&listener).await;
            stream.shutdown().await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn half_open_heads_have_no_end() {
    let (listener, target) = listen().await;
    let head = attack_until(Attack::HalfOpenHead, target, async {
        let mut stream = accept(&listener).await;
        stream.shutdown().await.unwrap();
        let mut head = String::new();
        stream.read_to_string(&mut head).await.unwrap();
        head
    })
    .await;
    assert!(head.starts_with("GET / HTTP/1.1\r\n") && !head.contains("\r\n\r\n"), "{head:?}");
}

#[tokio::test]
async fn half_open_handshakes_begin_a_record() {
    let (listener, target) = listen().await;
    let record = attack_until(Attack::HalfOpenHandshake, target, async {
        let mut stream = accept(&listener).await;
        stream.shutdown().await.unwrap();
        let mut record = Vec::new();
        stream.read_to_end(&mut record).await.unwrap();
        record
    })
    .await;
    assert!(record.starts_with(&[0x16, 3, 1, 2, 0]), "{record:?}");
}

#[tokio::test]
async fn dripping_heads_come_byte_by_byte() {
    let (listener, target) = listen().await;
    attack_until(Attack::DrippingHead, target, async {
        let mut stream = accept(&listener).await;
        let mut buffer = [0; 16];
        for expected in "GE".bytes() {
            assert_eq!(stream.read(&mut buffer).await.unwrap(), 1);
            assert_eq!(buffer.first(), Some(&expected));
        }
    })
    .await;
}

#[tokio::test]
async fn silent_http2_clients_reply_to_pings() {
    const PING: &[u8] = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00hostiles";
    const PING_ACK: &[u8] = b"\x00\x00\x08\x06\x01\x00\x00\x00\x00hostiles";
    let (listener, target) = listen().await;
    attack_until(Attack::SilentHttp2, target, async {
        let mut stream = accept(&listener).await;
        stream.write_all(PING).await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(PING_ACK) {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0);
        }
        assert!(received.starts_with(b"PRI * HTTP/2.0"));
    })
    .await;
}

#[tokio::test]
async fn each_request_has_a_token_of_its_own() {
    let mut server = serve("authorization").await;
    let tokens = attack_until(Attack::Tokens, server.address, async {
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..20 {
            all.insert(server.requests.recv().await.unwrap());
        }
        all
    })
    .await;
    assert_eq!(tokens.len(), 20);
    assert!(tokens.iter().all(|token| token.starts_with("Bearer ")), "{tokens:?}");
}

#[tokio::test]
async fn reviews_have_as_many_elements_as_are_decoded() {
    let mut server = serve("content-length").await;
    attack_until(Attack::Reviews, server.address, async {
        for _ in 0..2 {
            let length: usize = server.requests.recv().await.unwrap().parse().unwrap();
            assert!((70_000..100_000).contains(&length), "{length}");
        }
    })
    .await;
}

#[tokio::test]
async fn spoofed_headers_are_those_between_our_parts() {
    let mut server = serve("rouse-probe").await;
    attack_until(Attack::SpoofedHeaders, server.address, async {
        let mut missing = vec!["queue-proxy", "activator"];
        while !missing.is_empty() {
            let value = server.requests.recv().await.unwrap();
            missing.retain(|missing| *missing != value);
        }
    })
    .await;
}

#[tokio::test]
async fn streams_are_opened_until_the_server_refuses() {
    for attack in [Attack::RapidReset, Attack::UnfinishedStreams] {
        let mut server = serve("host").await;
        attack_until(attack, server.address, async {
            for _ in 0..100 {
                server.requests.recv().await.unwrap();
            }
        })
        .await;
    }
}

#[tokio::test]
async fn floods_go_on_after_the_server_has_ended_a_connection() {
    for attack in [Attack::HeaderFlood, Attack::ContinuationFlood] {
        let mut server = serve("host").await;
        attack_until(attack, server.address, async {
            // More than there are clients.
            for _ in 0..7 {
                server.connections.recv().await.unwrap();
            }
        })
        .await;
    }
}

#[tokio::test]
async fn ping_flood_sends_pings_and_settings() {
    const FLOOD: &[u8] = b"\x00\x00\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\x00\x00\x00\x04\0\0\0\0\0";
    let (listener, target) = listen().await;
    attack_until(Attack::PingFlood, target, async {
        let (mut stream, mut received) = (accept(&listener).await, Vec::new());
        while received.windows(FLOOD.len()).filter(|bytes| *bytes == FLOOD).count() < 100 {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn reports_held_and_refused_connections() {
    let (listener, target) = listen().await;
    let report = within(hostile::run(command(Attack::Idle, target, SHORT))).await.unwrap();
    assert_eq!((report.opened, report.held, report.refused, report.ended), (3, 3, 0, 0));
    drop(listener);
    let closed = SocketAddr::from(([127, 0, 0, 1], 1));
    let report = within(hostile::run(command(Attack::Idle, closed, SHORT))).await.unwrap();
    assert!(report.opened == 0 && report.refused >= 3, "{report:?}");
}

#[tokio::test]
async fn tls_clients_begin_with_a_handshake() {
    let (listener, target) = listen().await;
    let command = AttackCommand { tls: true, ..command(Attack::SilentHttp2, target, DEADLINE) };
    let observed = async {
        let mut hello = Vec::new();
        let mut stream = accept(&listener).await;
        while !hello.windows(2).any(|bytes| bytes == b"h2") {
            assert_ne!(stream.read_buf(&mut hello).await.unwrap(), 0);
        }
        hello
    };
    let hello = within(async {
        tokio::select! {
            report = hostile::run(command) => panic!("ended: {report:?}"),
            hello = observed => hello,
        }
    })
    .await;
    assert_eq!(hello.first(), Some(&0x16), "not a handshake record");
}

#[tokio::test]
async fn datagrams_are_queries_and_noise() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = socket.local_addr().unwrap();
    attack_until(Attack::Datagrams, target, async {
        let (mut queries, mut others) = (0, 0);
        let mut buffer = [0; 256];
        while queries == 0 || others == 0 {
            let count = socket.recv(&mut buffer).await.unwrap();
            let query = StatQuery::decode(buffer.get(..count).unwrap());
            queries += usize::from(query.is_some());
            others += usize::from(query.is_none());
        }
    })
    .await;
}

#[tokio::test]
async fn forged_statistics_reach_the_ports_of_collectors() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = socket.local_addr().unwrap();
    let mut buffer = [0; 256];
    let received = attack_until(Attack::ForgedStatistics, target, socket.recv(&mut buffer)).await.unwrap();
    assert!(buffer.get(..received).unwrap().starts_with(b"rst!"));
}
