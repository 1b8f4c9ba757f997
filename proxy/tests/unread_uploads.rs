//! Uploads over HTTP/2 that nothing reads take memory of the connection's guard.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::select_all;
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::server::{ConnectionGuard, ServerOptions, serve_on_workers};
use proxy::workers::Workers;
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

    fn take_memory(&self, _: u64) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("completed in time")
}

/// A client of a server that reads uploads to `/reads`, and no others.
async fn client(memory: &Arc<Semaphore>) -> SendRequest<Bytes> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, memory) = (listener.local_addr().unwrap(), memory.clone());
    let service = |_: Arc<()>, _: &Guard| {
        |request: Request<IncomingBody>, _: &Arc<ConnectionAddresses>| async move {
            if request.uri().path() != "/reads" {
                // The request and its body are kept.
                let _request = request;
                return pending::<Result<_, Infallible>>().await;
            }
            request.into_body().collect().await.unwrap();
            Ok(Response::new(Empty::<Bytes>::new()))
        }
    };
    tokio::spawn(async move {
        let admit = move |_: &ConnectionAddresses| Some(Guard(memory.clone()));
        let (workers, options) = (Workers::start([()]).unwrap(), ServerOptions::default());
        serve_on_workers(&workers, listener, admit, service, options, CancellationToken::new()).await;
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// Sends an upload of so many bytes, and ends it if it is to be read.
fn upload(client: &mut SendRequest<Bytes>, path: &str, bytes: usize) -> ResponseFuture {
    let request = Request::post(format!("http://a{path}")).body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data(vec![0; bytes].into(), path == "/reads").unwrap();
    // Without the end of the stream it would be reset.
    tokio::spawn(async move { std::future::poll_fn(|cx| body.poll_reset(cx)).await });
    response
}

#[tokio::test]
async fn unread_uploads_beyond_the_memory_are_reset_and_others_go_on() {
    let memory = Arc::new(Semaphore::new(PARTS));
    let mut client = client(&memory).await;
    let mut uploads: Vec<_> = (0..8).map(|_| upload(&mut client, "/", UPLOAD)).collect();
    while uploads.len() > KEPT_UPLOADS {
        let (ended, _, others) = within(select_all(uploads)).await;
        assert_eq!(ended.unwrap_err().reason(), Some(Reason::CANCEL));
        uploads = others;
    }
    assert!(memory.available_permits() <= 1);
    drop(uploads);
}

#[tokio::test]
async fn upload_that_is_read_takes_no_memory_in_the_end() {
    let memory = Arc::new(Semaphore::new(PARTS));
    let mut client = client(&memory).await;
    assert!(within(upload(&mut client, "/reads", 1 << 20)).await.unwrap().status().is_success());
    within(async {
        while memory.available_permits() < PARTS {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
