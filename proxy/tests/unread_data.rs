//! Uploads and responses that nothing reads take memory of the connection's guard.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::select_all;
use futures::stream;
use h2::Reason;

use h2::client::{ResponseFuture, SendRequest};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use proxy::gateway::grpc::CallFailure;
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::server::{ConnectionGuard, ServerOptions, serve_on_workers};
use proxy::workers::Workers;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Of 64 KiB each. Two uploads take them, each with one more frame.
const PARTS: usize = 3;
const KEPT_UPLOADS: usize = 2;
/// A little less than the window of a stream.
const UPLOAD: usize = 65_000;

struct Guard(Arc<Semaphore>);

impl ConnectionGuard for Guard {
    type Permit = OwnedSemaphorePermit;

    fn take_memory(&self, _: u64) -> Result<OwnedSemaphorePermit, Box<Response<Full<Bytes>>>> {
        let taken = self.0.clone().try_acquire_owned();
        taken.map_err(|_| {
            let response = Response::builder().status(503).extension(CallFailure::exhausted("full".into()));
            Box::new(response.body(Full::from("full")).unwrap())
        })
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("completed in time")
}

/// The address of a server that reads uploads to `/reads`, of those to `/stalls` the first MiB, and
/// no others.
async fn serve(memory: &Arc<Semaphore>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, memory) = (listener.local_addr().unwrap(), memory.clone());
    let service = |_: Arc<()>, _: &Guard| {
        |request: Request<IncomingBody>, _: &Arc<ConnectionAddresses>| async move {
            match request.uri().path() {
                "/endless" => {
                    let data = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[0; 16384]))));
                    return Ok(Response::new(StreamBody::new(data).boxed()));
                }
                "/stalls" => {
                    let mut body = request.into_body();
                    let mut read = 0;
                    // hyper's reads grow to their largest size.
                    while read < 1 << 20 {
                        read += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
                    }
                    return pending().await;
                }
                "/reads" => drop(request.into_body().collect().await.unwrap()),
                // The request and its body are kept with the body of the response.
                path if path.starts_with("/begun") => {
                    let never = stream::once(async move {
                        let _request = request;
                        pending::<Result<Frame<Bytes>, Infallible>>().await
                    });
                    return Ok(Response::new(StreamBody::new(never).boxed()));
                }
                _ => {
                    let _request = request;
                    return pending::<Result<_, Infallible>>().await;
                }
            }
            Ok(Response::new(Empty::<Bytes>::new().boxed()))
        }
    };
    tokio::spawn(async move {
        let admit = move |_: &ConnectionAddresses| Some(Guard(memory.clone()));
        let (workers, options) = (Workers::start([()]).unwrap(), ServerOptions::default());
        serve_on_workers(&workers, listener, admit, service, options, CancellationToken::new()).await;
    });
    address
}

async fn client(memory: &Arc<Semaphore>) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(serve(memory).await).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

async fn all_returned(memory: &Semaphore, parts: usize) {
    within(async {
        while memory.available_permits() < parts {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Sends an upload of so many bytes, and ends it if it is to be read.
fn upload(client: &mut SendRequest<Bytes>, path: &str, bytes: usize) -> ResponseFuture {
    let content_type = if path.ends_with("call") { "application/grpc" } else { "text/plain" };
    let request = Request::post(format!("http://a{path}")).header("content-type", content_type);
    let request = request.body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data(vec![0; bytes].into(), path == "/reads").unwrap();
    // Without the end of the stream it would be reset.
    tokio::spawn(async move { std::future::poll_fn(|cx| body.poll_reset(cx)).await });
    response
}

#[tokio::test]
async fn unread_uploads_beyond_the_memory_are_refused_and_others_go_on() {
    for call in [false, true] {
        let memory = Arc::new(Semaphore::new(PARTS));
        let mut client = client(&memory).await;
        let path = if call { "/call" } else { "/" };
        let mut uploads: Vec<_> = (0..8).map(|_| upload(&mut client, path, UPLOAD)).collect();
        while uploads.len() > KEPT_UPLOADS {
            let (refused, _, others) = within(select_all(uploads)).await;
            let (head, mut body) = refused.unwrap().into_parts();
            if call {
                assert_eq!(
                    (head.status.as_u16(), &head.headers["grpc-status"]),
                    (200, &"8".parse().unwrap())
                );
                assert!(body.is_end_stream());
            } else {
                assert_eq!(head.status, 503);
                assert_eq!(within(body.data()).await.unwrap().unwrap(), "full");
            }
            uploads = others;
        }
        assert!(memory.available_permits() <= 1);
        assert!(within(upload(&mut client, "/reads", 100)).await.unwrap().status().is_success());
        drop(uploads);
    }
}

#[tokio::test]
async fn upload_beyond_the_memory_is_cut_after_its_response_has_begun() {
    let memory = Arc::new(Semaphore::new(0));
    let mut client = client(&memory).await;
    let (_, mut body) = within(upload(&mut client, "/begun", UPLOAD)).await.unwrap().into_parts();
    let cut = within(body.data()).await.unwrap().unwrap_err();
    assert_eq!(cut.reason(), Some(Reason::CANCEL));
    let (_, mut body) = within(upload(&mut client, "/begun-call", UPLOAD)).await.unwrap().into_parts();
    assert!(within(body.data()).await.is_none());
    assert_eq!(within(body.trailers()).await.unwrap().unwrap()["grpc-status"], "8");
}

#[tokio::test]
async fn responses_that_the_client_does_not_read_are_cut_beyond_the_memory() {
    let memory = Arc::new(Semaphore::new(PARTS));
    let mut client = client(&memory).await;
    let mut responses = Vec::new();
    for _ in 0..6 {
        let request = Request::get("http://a/endless").body(()).unwrap();
        let mut body = within(client.send_request(request, true).unwrap().0).await.unwrap().into_body();
        // Its window is never released.
        responses.push(Box::pin(async move { while body.data().await.unwrap().is_ok() {} }));
    }
    while responses.len() > KEPT_UPLOADS {
        responses = within(select_all(responses)).await.2;
    }
    assert!(memory.available_permits() <= 1);
    drop(responses);
    all_returned(&memory, PARTS).await;
}

#[tokio::test]
async fn upload_that_is_read_takes_no_memory_in_the_end() {
    let memory = Arc::new(Semaphore::new(PARTS));
    let mut client = client(&memory).await;
    assert!(within(upload(&mut client, "/reads", 1 << 20)).await.unwrap().status().is_success());
    all_returned(&memory, PARTS).await;
}

/// Sends a request over HTTP/1, and reads nothing.
async fn http1(to: SocketAddr, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(format!("{head}host: a\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn http1_uploads_that_stall_beyond_the_memory_are_refused_and_others_go_on() {
    // Each keeps at least 96 KiB, in parts of 16.
    let memory = Arc::new(Semaphore::new(24));
    let address = serve(&memory).await;
    let mut uploads = Vec::new();
    for _ in 0..8 {
        let mut stream = http1(address, "POST /stalls HTTP/1.1\r\ncontent-length: 100000000\r\n").await;
        uploads.push(Box::pin(async move {
            let (mut reader, mut writer) = stream.split();
            let sends = async {
                while writer.write_all(&[0; 65536]).await.is_ok() {}
                pending::<()>().await;
            };
            let mut response = vec![0; 1024];
            tokio::select! {
                read = reader.read(&mut response) => response.truncate(read.unwrap()),
                () = sends => {}
            }
            String::from_utf8(response).unwrap()
        }));
    }
    while uploads.len() > 4 {
        let (response, _, others) = within(select_all(uploads)).await;
        assert!(response.starts_with("HTTP/1.1 503"), "{response}");
        assert!(response.contains("connection: close"), "{response}");
        assert!(response.ends_with("full"), "{response}");
        uploads = others;
    }
    let mut response = vec![0; 1024];
    let read = http1(address, "GET /reads HTTP/1.1\r\n").await.read(&mut response).await.unwrap();
    assert!(response[..read].starts_with(b"HTTP/1.1 200"));
    drop(uploads);
}

#[tokio::test]
async fn http1_upload_that_is_read_takes_no_memory_in_the_end() {
    let memory = Arc::new(Semaphore::new(24));
    let address = serve(&memory).await;
    let mut stream = http1(address, "POST /reads HTTP/1.1\r\ncontent-length: 3000000\r\n").await;
    within(stream.write_all(&vec![0; 3_000_000])).await.unwrap();
    let mut response = vec![0; 1024];
    let read = within(stream.read(&mut response)).await.unwrap();
    assert!(response[..read].starts_with(b"HTTP/1.1 200"));
    all_returned(&memory, 24).await;
}

/// h2 had kept a frame that was read, and no update of the window followed.
#[tokio::test]
async fn upload_that_was_read_goes_on_when_windows_shrink() {
    let mut client = client(&Arc::new(Semaphore::new(64))).await;
    let request = |path| Request::post(format!("http://a{path}")).body(()).unwrap();
    let (response, mut body) = client.send_request(request("/reads"), false).unwrap();
    body.send_data(vec![0; 1 << 14].into(), false).unwrap();
    // It is read by then.
    assert_eq!(within(upload(&mut client, "/reads", 1)).await.unwrap().status(), 200);
    let _unread: Vec<_> = (0..20).map(|_| upload(&mut client, "/", UPLOAD)).collect();
    within(async {
        // Each new stream has the present window.
        loop {
            let (_, mut probe) = client.send_request(request("/"), false).unwrap();
            probe.reserve_capacity(1 << 20);
            poll_fn(|cx| probe.poll_capacity(cx)).await.unwrap().unwrap();
            if probe.capacity() <= 1 << 15 {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    body.send_data(vec![0; 1 << 20].into(), true).unwrap();
    assert_eq!(within(response).await.unwrap().status(), 200);
}
