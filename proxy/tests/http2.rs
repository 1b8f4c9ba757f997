//! HTTP/2 from a client's side. `tests/conformance` has the rules of the protocol.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "these are tests")]

use std::convert::Infallible;
use std::error::Error as _;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use http::{HeaderValue, Method, Request, Response, Version, header};
use http_body::{Body as _, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use http_client::BoxError;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use proxy::incoming_body::IncomingBody;
use proxy::server::{self, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A server with the paths of [`respond`].
struct Server {
    address: SocketAddr,
    gate: Arc<Semaphore>,
    stop: DropGuard,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (gate, stop) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let handler = {
            let gate = gate.clone();
            move |request: Request<IncomingBody>, _: &_| {
                let gate = gate.clone();
                async move { Ok::<_, Infallible>(respond(request, &gate).await) }
            }
        };
        tokio::spawn(server::serve(listener, handler, ServerOptions::default(), stop.clone()));
        Self { address, gate, stop: stop.drop_guard() }
    }

    async fn connect(&self) -> SendRequest<Body> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

async fn respond(request: Request<IncomingBody>, gate: &Arc<Semaphore>) -> Response<Body> {
    let (head, body) = request.into_parts();
    match head.uri.path() {
        "/echo" => Response::new(body.map_err(Into::into).boxed_unsync()),
        // With what the head says of the body.
        "/length" => {
            let (exact, ends) = (body.size_hint().exact(), body.is_end_stream());
            let read = body.collect().await.unwrap().to_bytes().len();
            full(&format!("{exact:?} {ends} {read}"))
        }
        "/wait" => {
            gate.acquire().await.unwrap().forget();
            full("waited")
        }
        "/failing" => {
            let reset = BoxError::from(h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM));
            let part = stream::iter([Ok(Frame::data(Bytes::from_static(b"part")))]);
            let gate = gate.clone();
            let failure = stream::once(async move {
                gate.acquire().await.unwrap().forget();
                Err(reset)
            });
            Response::new(StreamBody::new(part.chain(failure)).boxed_unsync())
        }
        "/not-http2" => {
            let mut response = full("ok");
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
        _ => full("ok"),
    }
}

fn full(text: &str) -> Response<Body> {
    let body = Full::from(text.to_owned()).map_err(|never| match never {});
    Response::new(body.boxed_unsync())
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

fn request(method: Method, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(format!("http://web.example{path}"));
    request.version(Version::HTTP_2).body(body).unwrap()
}

async fn get(client: &mut SendRequest<Body>, path: &str) -> Response<Incoming> {
    within(client.send_request(request(Method::GET, path, empty()))).await.unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let body = within(response.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8(body.into()).unwrap()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("completed in time")
}

#[tokio::test]
async fn response_gets_length_and_date() {
    let server = Server::start().await;
    let response = get(&mut server.connect().await, "/").await;
    assert_eq!(response.headers()[header::CONTENT_LENGTH], "2");
    assert!(response.headers().contains_key(header::DATE));
    assert_eq!(text(response).await, "ok");
}

#[tokio::test]
async fn response_to_head_has_length_and_no_body() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let response = within(client.send_request(request(Method::HEAD, "/", empty()))).await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_LENGTH], "2");
    assert!(response.body().is_end_stream());
}

#[tokio::test]
async fn body_has_the_length_of_its_head() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    assert_eq!(text(get(&mut client, "/length").await).await, "Some(0) true 0");
    let sized = full("12345").into_body();
    let response = client.send_request(request(Method::POST, "/length", sized));
    assert_eq!(text(within(response).await.unwrap()).await, "Some(5) false 5");
    let frames = ["12", "345"].map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from(part))));
    let unsized_body = StreamBody::new(stream::iter(frames)).boxed_unsync();
    let response = client.send_request(request(Method::POST, "/length", unsized_body));
    assert_eq!(text(within(response).await.unwrap()).await, "None false 5");
}

#[tokio::test]
async fn large_bodies_pass_in_both_directions_on_many_streams() {
    let server = Server::start().await;
    let client = server.connect().await;
    // Many times the windows and the buffers.
    let sent = Bytes::from((0..1_000_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    let exchanges = (0..20).map(|_| {
        let (mut client, sent) = (client.clone(), sent.clone());
        async move {
            let body = Full::new(sent.clone()).map_err(|never| match never {}).boxed_unsync();
            let response = client.send_request(request(Method::POST, "/echo", body)).await.unwrap();
            assert!(response.into_body().collect().await.unwrap().to_bytes() == sent);
        }
    });
    within(join_all(exchanges)).await;
}

#[tokio::test]
async fn streams_that_wait_leave_others_alone() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let waiting: Vec<_> =
        (0..199).map(|_| tokio::spawn(client.send_request(request(Method::GET, "/wait", empty())))).collect();
    assert_eq!(text(get(&mut client, "/").await).await, "ok");
    server.gate.add_permits(199);
    for response in within(join_all(waiting)).await {
        assert_eq!(text(response.unwrap().unwrap()).await, "waited");
    }
}

#[tokio::test]
async fn failed_body_resets_stream_with_the_reason_of_the_app() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let response = get(&mut client, "/failing").await;
    server.gate.add_permits(1);
    let error = within(response.into_body().collect()).await.unwrap_err();
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    assert_eq!(cause.and_then(h2::Error::reason), Some(h2::Reason::ENHANCE_YOUR_CALM));
    assert_eq!(text(get(&mut client, "/").await).await, "ok");
}

#[tokio::test]
async fn response_that_http2_cannot_express_resets_its_stream_alone() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let failed = within(client.send_request(request(Method::GET, "/not-http2", empty()))).await;
    assert!(failed.is_err());
    assert_eq!(text(get(&mut client, "/").await).await, "ok");
}

#[tokio::test]
async fn stop_lets_running_streams_finish_and_closes_the_connection() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let waiting = tokio::spawn(client.send_request(request(Method::GET, "/wait", empty())));
    assert_eq!(text(get(&mut client, "/").await).await, "ok");
    drop(server.stop);
    server.gate.add_permits(1);
    assert_eq!(text(within(waiting).await.unwrap().unwrap()).await, "waited");
    within(async {
        while !client.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PING_ACK: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0";
const WINDOW_UPDATE: &[u8] = b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01";

/// The payload of the next frame of this type; `None` at the end of the connection.
async fn next_frame(client: &mut TcpStream, wanted: u8) -> Option<Vec<u8>> {
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await.ok()?;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        client.read_exact(&mut payload).await.unwrap();
        if head[3] == wanted {
            return Some(payload);
        }
    }
}

#[tokio::test]
async fn frames_behind_the_end_of_a_drained_connection_do_not_reset_it() {
    let (settings, ping) = (4, 6);
    let server = Server::start().await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(PREFACE_AND_SETTINGS).await.unwrap();
    within(next_frame(&mut client, settings)).await.unwrap();
    drop(server.stop);
    let sent = within(next_frame(&mut client, ping)).await.unwrap();
    client.write_all(&[PING_ACK, &sent].concat()).await.unwrap();
    assert_eq!(within(next_frame(&mut client, ping)).await, None, "the server closes its side");
    // A write behind a reset fails.
    for _ in 0..100 {
        client.write_all(WINDOW_UPDATE).await.unwrap();
        tokio::task::yield_now().await;
    }
}
