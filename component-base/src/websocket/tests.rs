//! Lost peers on a paused clock, and connections to a loopback server.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::{WebSocketStream, accept_async};

use super::*;
use crate::auth::ProjectedToken;

const LIMITS: PeerLimits = PeerLimits {
    ping_interval: Duration::from_secs(3),
    silence_timeout: Duration::from_secs(10),
    send_timeout: Duration::from_secs(5),
};
const MAX_MESSAGE: usize = 16;
/// Timeout of a test over loopback.
const TIMEOUT: Duration = Duration::from_secs(10);

fn connector(server: &TcpListener) -> Connector {
    let retry = (Duration::from_millis(1), Duration::from_millis(5));
    Connector::new(server.local_addr().unwrap(), "/test", ProjectedToken::default(), retry)
        .with_max_message(MAX_MESSAGE)
}

async fn server() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

async fn accept(server: &TcpListener) -> WebSocketStream<TcpStream> {
    accept_async(server.accept().await.unwrap().0).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn silent_peer_ends_connection_despite_pings() {
    let (near, _far) = tokio::io::duplex(1024);
    let socket = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
    let (mut sender, mut receiver) = split(socket, LIMITS);
    let started = Instant::now();
    let error = tokio::select! {
        error = receiver.closed() => error,
        _ = sender.ping_until(std::future::pending::<()>()) => panic!("pings fit into the buffer"),
    };
    assert!(matches!(error, PeerError::Silent(_)), "{error}");
    assert_eq!(started.elapsed(), LIMITS.silence_timeout);
}

#[tokio::test(start_paused = true)]
async fn pongs_keep_connection_open() {
    let (near, far) = tokio::io::duplex(1024);
    let socket = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
    let mut peer = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
    let (mut sender, mut receiver) = split(socket, LIMITS);
    tokio::select! {
        error = receiver.closed() => panic!("{error}"),
        pinged = sender.ping_until(tokio::time::sleep(10 * LIMITS.silence_timeout)) => pinged.unwrap(),
        // Reading responds to pings.
        () = async { while peer.next().await.is_some() {} } => panic!("closed"),
    }
}

#[tokio::test(start_paused = true)]
async fn peer_that_does_not_read_ends_sending() {
    let (near, _far) = tokio::io::duplex(1);
    let socket = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
    let (mut sender, _receiver) = split(socket, LIMITS);
    let error = sender.send([Message::text("more than the buffer")]).await.unwrap_err();
    assert!(matches!(error, PeerError::SendTimeout(_)), "{error}");
}

#[tokio::test]
async fn too_large_message_ends_connection() {
    let server = server().await;
    let mut connector = connector(&server);
    let (mut peer, socket) = tokio::join!(accept(&server), connector.connect());
    let (_sender, mut receiver) = split::<_, Message, _>(socket, LIMITS);
    peer.send(Message::text("a".repeat(MAX_MESSAGE))).await.unwrap();
    assert!(receiver.next().await.unwrap().is_text());
    peer.send(Message::text("a".repeat(MAX_MESSAGE + 1))).await.unwrap();
    let error = receiver.next().await.unwrap_err();
    assert!(matches!(error, PeerError::Transport(_)), "{error}");
}

#[tokio::test]
async fn does_not_use_connection_to_server_that_the_check_refuses() {
    let server = server().await;
    let version = http::HeaderName::from_static("version");
    let check: fn(&http::HeaderMap) -> _ =
        |headers| if headers.contains_key("version") { Err("newer".to_owned()) } else { Ok(()) };
    let mut connector = connector(&server)
        .with_header(version.clone(), http::HeaderValue::from_static("1"))
        .with_check(check);
    let serve = async {
        // The first response has the header of its request.
        #[expect(clippy::result_large_err, reason = "the type of the library")]
        let callback = |request: &http::Request<()>, mut response: http::Response<()>| {
            response.headers_mut().insert(version.clone(), request.headers()["version"].clone());
            Ok(response)
        };
        let stream = server.accept().await.unwrap().0;
        let mut refused = tokio_tungstenite::accept_hdr_async(stream, callback).await.unwrap();
        assert!(!matches!(refused.next().await, Some(Ok(_))), "closed without a message");
        accept(&server).await
    };
    let connected = async { tokio::join!(serve, connector.connect()) };
    tokio::time::timeout(TIMEOUT, connected).await.unwrap();
}

#[tokio::test]
async fn connects_again_after_rejected_and_failed_handshakes() {
    let server = server().await;
    let mut connector = connector(&server);
    let serve = async {
        drop(server.accept().await.unwrap());
        let (mut rejected, _) = server.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(rejected.read_buf(&mut request).await.unwrap(), 0);
        }
        let response = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
        rejected.write_all(response).await.unwrap();
        drop(rejected);
        accept(&server).await
    };
    let connected = async { tokio::join!(serve, connector.connect()) };
    let (mut peer, mut socket) = tokio::time::timeout(TIMEOUT, connected).await.unwrap();
    peer.send(Message::text("open")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("open"));
}
