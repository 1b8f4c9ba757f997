//! Connections that their guard closes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "these are tests")]

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::{Request, Response};
use http_body_util::Full;
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::server::{ConnectionGuard, ServerOptions, serve_on_workers};
use proxy::workers::Workers;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The preface of a client and its empty SETTINGS.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The head of a frame, and the types and codes of RFC 9113 that are checked.
const FRAME_HEAD: usize = 9;
const GOAWAY: u8 = 7;
const NO_ERROR: u32 = 0;

/// Closes its connection when the semaphore has a permit.
struct Guard(Arc<Semaphore>);

impl ConnectionGuard for Guard {
    type Permit = ();

    fn take_memory(&self, _: u64) -> Result<(), Box<Response<Full<Bytes>>>> {
        Ok(())
    }

    async fn closed(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// A server that answers `/` at once, and no other path.
struct Server {
    address: SocketAddr,
    close: Arc<Semaphore>,
    arrivals: mpsc::Receiver<()>,
    _stop: DropGuard,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (close, stop) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let (arrived, arrivals) = mpsc::channel(10);
        let admit = {
            let close = close.clone();
            move |_: &ConnectionAddresses| Some(Guard(close.clone()))
        };
        let service = move |_: Arc<()>, _: &Guard| {
            let arrived = arrived.clone();
            move |request: Request<IncomingBody>, _: &_| {
                let arrived = arrived.clone();
                async move {
                    arrived.send(()).await.unwrap();
                    match request.uri().path() {
                        "/" => Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("ok")))),
                        _ => pending().await,
                    }
                }
            }
        };
        let workers = Workers::start([()]).unwrap();
        let serving = stop.clone();
        tokio::spawn(async move {
            serve_on_workers(&workers, listener, admit, service, ServerOptions::default(), serving).await;
        });
        Self { address, close, arrivals, _stop: stop.drop_guard() }
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("completed in time")
}

/// The types and payloads of frames.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while bytes.len() >= FRAME_HEAD {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        frames.push((bytes[3], bytes[FRAME_HEAD..FRAME_HEAD + length].to_vec()));
        bytes = &bytes[FRAME_HEAD + length..];
    }
    frames
}

#[tokio::test]
async fn idle_http2_connection_ends_with_goaway() {
    let server = Server::start().await;
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(HTTP2).await.unwrap();
    let mut received = vec![0; 1024];
    let length = within(client.read(&mut received)).await.unwrap();
    received.truncate(length);
    server.close.add_permits(1);
    within(client.read_to_end(&mut received)).await.unwrap();
    let (kind, payload) = frames(&received).pop().unwrap();
    let last_stream_and_reason = [0_u32.to_be_bytes(), NO_ERROR.to_be_bytes()].concat();
    assert_eq!((kind, payload), (GOAWAY, last_stream_and_reason));
}

#[tokio::test]
async fn http2_request_that_was_not_begun_is_refused() {
    let mut server = Server::start().await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let get = |path: &str| Request::get(format!("http://web.example{path}")).body(()).unwrap();
    let (answered, _) = client.send_request(get("/"), true).unwrap();
    assert_eq!(within(answered).await.unwrap().status(), 200);
    let (refused, _) = client.send_request(get("/wait"), true).unwrap();
    for _ in 0..2 {
        within(server.arrivals.recv()).await.unwrap();
    }
    server.close.add_permits(1);
    let error = within(refused).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM), "{error:?}");
}
