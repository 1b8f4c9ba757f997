//! HTTP/2 connections to one server: streams that wait, stall and fail must not stop other
//! requests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::future::join_all;
use futures::stream;
use http::header::{ETAG, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use http_client::{Error, Http2Options, Http2Pool, NoFreeStream, RequestBody, ResponseBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_secs(20);
const OPTIONS: Http2Options = Http2Options {
    ping: None,
    idle_timeout: Duration::from_secs(60),
    stream_timeout: Duration::from_millis(500),
    upload_window: Some(Client::LEAST_WINDOW),
};

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Client = Http2Pool;

/// A server that counts its open connections and its requests without a response.
struct Server {
    address: SocketAddr,
    open: watch::Receiver<usize>,
    hanging: watch::Receiver<usize>,
}

impl Server {
    /// Serves `/endless`, which never ends, `/trailers`, which ends with trailers, `/hang`, which
    /// never responds or reads, `/unread`, which does not read the request, `/read`, which responds
    /// with its body, and other paths.
    async fn start(max_streams: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (count, open) = watch::channel(0);
        let (hang, hanging) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (count, hang) = (count.clone(), hang.clone());
                // Nagle's algorithm on either side delays each of many short exchanges.
                stream.set_nodelay(true).unwrap();
                count.send_modify(|open| *open += 1);
                tokio::spawn(async move {
                    let mut server = http2::Builder::new(TokioExecutor::new());
                    server.max_concurrent_streams(max_streams);
                    // A client may disconnect at any time.
                    let service = service_fn(move |request| answer(request, hang.clone()));
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { address, open, hanging }
    }

    /// Sends a request that gets no response, and waits until it has a stream.
    async fn hang(self: &Arc<Self>, client: &Arc<Client>) {
        self.stall(client, Full::default()).await;
    }

    /// Uploads a body that is not read, and waits until it has a stream.
    async fn stall(self: &Arc<Self>, client: &Arc<Client>, body: impl RequestBody) {
        let (server, client, mut hanging) = (self.clone(), client.clone(), self.hanging.clone());
        let before = *hanging.borrow();
        tokio::spawn(async move { server.upload(&client, "/hang", body).await.map(drop) });
        within(hanging.wait_for(|hanging| *hanging > before)).await.unwrap();
    }

    fn connections(&self) -> usize {
        *self.open.borrow()
    }

    async fn send(&self, client: &Client, path: &str) -> Result<Response<ResponseBody>, Error> {
        self.upload(client, path, Full::<Bytes>::default()).await
    }

    async fn upload(
        &self,
        client: &Client,
        path: &str,
        body: impl RequestBody,
    ) -> Result<Response<ResponseBody>, Error> {
        let request = Request::post(format!("http://a{path}")).body(body).unwrap();
        let address = self.address;
        let connect = move || async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        send(client, request, connect).await
    }

    async fn get(&self, client: &Client, path: &str) -> Response<ResponseBody> {
        within(self.send(client, path)).await.unwrap()
    }
}

async fn send<B: RequestBody, F>(
    client: &Client,
    request: Request<B>,
    connect: impl Fn() -> F,
) -> Result<Response<ResponseBody>, Error>
where
    F: Future<Output = io::Result<TcpStream>> + Send + 'static,
{
    let (head, body) = request.into_parts();
    client.send(head, body, connect).await
}

/// A body of unknown length, which fills each window.
fn endless() -> impl RequestBody {
    let piece = Bytes::from(vec![b'x'; 16 << 10]);
    StreamBody::new(stream::repeat_with(move || Ok::<_, Infallible>(Frame::data(piece.clone()))))
}

/// A body of one frame, whose length is not known before.
fn message(length: usize) -> impl RequestBody {
    StreamBody::new(stream::iter([Ok::<_, Infallible>(Frame::data(vec![b'x'; length].into()))]))
}

async fn answer(
    request: Request<Incoming>,
    hang: watch::Sender<usize>,
) -> Result<Response<Body>, Infallible> {
    let body = match request.uri().path() {
        "/endless" => {
            let piece = Bytes::from(vec![b'x'; 16 << 10]);
            let pieces = stream::repeat_with(move || Ok(Frame::data(piece.clone())));
            StreamBody::new(pieces).boxed_unsync()
        }
        "/trailers" => {
            let trailers = HeaderMap::from_iter([(ETAG, HeaderValue::from_static("a"))]);
            let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers)];
            StreamBody::new(stream::iter(frames.map(Ok))).boxed_unsync()
        }
        "/hang" => {
            hang.send_modify(|hanging| *hanging += 1);
            std::future::pending().await
        }
        "/unread" => {
            // Its stream stays open, and is never read.
            std::mem::forget(request);
            Full::from("ok").boxed_unsync()
        }
        "/short" => {
            let response = Response::builder().header("content-length", 9);
            let body = StreamBody::new(stream::iter([Ok(Frame::data(Bytes::from_static(b"short")))]));
            return Ok(response.body(body.boxed_unsync()).unwrap());
        }
        "/read" => {
            let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            Full::from(body).boxed_unsync()
        }
        "/large" => Full::from(vec![b'x'; 1 << 20]).boxed_unsync(),
        _ => Full::from("ok").boxed_unsync(),
    };
    Ok(Response::new(body))
}

async fn length(response: Response<ResponseBody>) -> usize {
    within(response.into_body().collect()).await.unwrap().to_bytes().len()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("completed in time")
}

#[tokio::test]
async fn callers_that_stop_reading_leave_window_to_others() {
    let (server, client) = (Server::start(200).await, Client::new(OPTIONS));
    let stopped = join_all((0..20).map(|_| server.get(&client, "/endless"))).await;
    for mut response in stopped.into_iter().collect::<Vec<_>>() {
        // One frame is read, so that the stream is known to flow; the rest fills its window.
        within(response.body_mut().frame()).await.unwrap().unwrap();
        std::mem::forget(response);
    }
    for _ in 0..10 {
        assert_eq!(length(server.get(&client, "/large").await).await, 1 << 20);
    }
}

#[tokio::test]
async fn upload_that_is_not_read_does_not_stop_others() {
    let (server, client) = (Arc::new(Server::start(200).await), Arc::new(Client::new(OPTIONS)));
    for stalled in 0..40 {
        server.stall(&client, endless()).await;
        let sent = within(server.upload(&client, "/read", Full::from(vec![b'x'; 10_000]))).await.unwrap();
        assert_eq!(length(sent).await, 10_000, "beside {stalled}");
    }
    assert!(server.connections() <= Client::MAX_CONNECTIONS);
}

#[tokio::test]
async fn upload_of_unknown_length_has_a_window_of_its_own() {
    let (server, client) = (Arc::new(Server::start(200).await), Arc::new(Client::new(OPTIONS)));
    for _ in 0..10 {
        server.stall(&client, endless()).await;
        assert_eq!(length(within(server.upload(&client, "/read", message(9))).await.unwrap()).await, 9);
    }
}

#[tokio::test]
async fn whole_messages_that_are_not_read_do_not_stop_others() {
    let (server, client) = (Arc::new(Server::start(200).await), Arc::new(Client::new(OPTIONS)));
    for _ in 0..20 {
        server.stall(&client, Full::from(vec![b'x'; 16 << 10])).await;
        assert_eq!(length(within(server.upload(&client, "/read", message(9))).await.unwrap()).await, 9);
    }
}

#[tokio::test]
async fn requests_without_upload_share_a_connection() {
    let (server, client) = (Arc::new(Server::start(200).await), Arc::new(Client::new(OPTIONS)));
    server.stall(&client, endless()).await;
    for _ in 0..20 {
        server.hang(&client).await;
    }
    assert_eq!(server.connections(), 2);
}

const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// Type and flags of the next frame.
async fn frame(stream: &mut TcpStream) -> (u8, u8) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
    (head[3], head[4])
}

#[tokio::test]
async fn first_request_follows_the_settings_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, client) = (listener.local_addr().unwrap(), Client::new(OPTIONS));
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; PREFACE]).await.unwrap();
        assert_eq!(frame(&mut stream).await.0, SETTINGS);
        stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
        let mut acknowledged = false;
        loop {
            match frame(&mut stream).await {
                (HEADERS, _) => return acknowledged,
                (SETTINGS, ACK) => acknowledged = true,
                _ => {}
            }
        }
    };
    let request = Request::get("http://a/").body(Full::<Bytes>::default()).unwrap();
    let sent = send(&client, request, move || TcpStream::connect(address));
    tokio::select! { acknowledged = within(serve) => assert!(acknowledged), sent = sent => panic!("{sent:?}") }
}

#[tokio::test]
async fn post_is_sent_over_another_connection_if_one_ends_before_its_settings() {
    let (server, client) = (Server::start(200).await, Client::new(OPTIONS));
    let closing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (first, address, attempts) = (closing.local_addr().unwrap(), server.address, AtomicUsize::new(0));
    tokio::spawn(async move {
        let (mut stream, _) = closing.accept().await.unwrap();
        stream.read_exact(&mut [0; PREFACE]).await.unwrap();
    });
    let request = Request::post("http://a/read").body(Full::<Bytes>::from("hello")).unwrap();
    let to = || if attempts.fetch_add(1, Ordering::Relaxed) == 0 { first } else { address };
    let sent = within(send(&client, request, || TcpStream::connect(to()))).await;
    assert_eq!(length(sent.unwrap()).await, 5);
}

/// Serves a connection that processes its first stream alone.
async fn serve_one_request(mut stream: TcpStream) {
    const GOAWAY: u8 = 7;
    const STATUS_200: u8 = 0x88;
    stream.read_exact(&mut [0; PREFACE]).await.unwrap();
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
    while frame(&mut stream).await.0 != HEADERS {}
    let response = [0, 0, 1, HEADERS, 0b101, 0, 0, 0, 1, STATUS_200];
    let goaway = [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    stream.write_all(&[&response[..], &goaway].concat()).await.unwrap();
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}

#[tokio::test]
async fn burst_is_served_by_a_server_that_ends_each_connection_after_a_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_one_request(stream));
        }
    });
    let client = Client::new(OPTIONS);
    let requests = (0..12).map(|_| {
        let request = Request::post("http://a/").body(Full::<Bytes>::default()).unwrap();
        send(&client, request, move || TcpStream::connect(address))
    });
    for response in within(join_all(requests)).await {
        response.unwrap();
    }
}

#[tokio::test]
async fn request_beyond_stream_limit_uses_another_connection() {
    let (server, client) = (Server::start(2).await, Arc::new(Client::new(OPTIONS)));
    let server = Arc::new(server);
    for _ in 0..5 {
        server.hang(&client).await;
    }
    assert_eq!(length(server.get(&client, "/").await).await, 2);
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn ended_streams_are_used_again() {
    let (server, client) = (Server::start(2).await, Client::new(OPTIONS));
    for _ in 0..20 {
        let (one, two) = tokio::join!(server.get(&client, "/"), server.get(&client, "/endless"));
        assert_eq!(length(one).await, 2);
        drop(two);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_share_one_connect_and_its_failure() {
    let client = Client::new(OPTIONS);
    let attempts = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let requests = (0..10).map(|_| {
        let request = Request::get("http://a/").body(Full::default()).unwrap();
        send(&client, request, || {
            attempts.fetch_add(1, Ordering::Relaxed);
            async {
                tokio::time::sleep(Duration::from_millis(1200)).await;
                Err::<TcpStream, _>(io::Error::new(io::ErrorKind::TimedOut, "no route"))
            }
        })
    });
    for result in join_all(requests).await {
        let Err(Error::Unreachable(error)) = result else { panic!("{result:?}") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
    assert_eq!(began.elapsed().as_millis() / 100, 12, "all fail at the same time");
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn connect_outlives_the_request_that_began_it() {
    let (server, client) = (Server::start(200).await, Client::new(OPTIONS));
    let (release, released) = watch::channel(false);
    let connect = || {
        let (mut released, address) = (released.clone(), server.address);
        async move {
            let _ = released.wait_for(|released| *released).await;
            TcpStream::connect(address).await
        }
    };
    let request = || Request::get("http://a/").body(Full::default()).unwrap();
    {
        let first = send(&client, request(), connect);
        tokio::select! { biased; _ = first => panic!("not connected"), () = std::future::ready(()) => {} }
    }
    let second = send(&client, request(), || async { Err(io::Error::other("a second connect")) });
    let (_, response) = within(async { tokio::join!(async { release.send(true) }, second) }).await;
    assert_eq!(length(response.unwrap()).await, 2);
}

#[tokio::test]
async fn request_without_free_stream_fails_with_clear_error() {
    let (server, client) = (Server::start(1).await, Arc::new(Client::new(OPTIONS)));
    let server = Arc::new(server);
    for _ in 0..Client::MAX_CONNECTIONS {
        server.hang(&client).await;
    }
    let mut requests: Vec<_> =
        (0..=Client::MAX_WAITING).map(|_| Box::pin(server.send(&client, "/"))).collect();
    let mut last = requests.pop().unwrap();
    let waiting = join_all(requests.iter_mut());
    tokio::select! { biased; _ = waiting => panic!("no stream is free"), () = std::future::ready(()) => {} }
    let full = within(&mut last).await.unwrap_err();
    assert!(matches!(full, Error::NoFreeStream(NoFreeStream::QueueFull)), "{full}");
    for result in within(join_all(requests)).await {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::NoFreeStream(NoFreeStream::TimedOut { .. })), "{error}");
    }
}

#[tokio::test]
async fn server_that_permits_no_stream_fails_requests_in_time() {
    const NO_STREAMS: [u8; 15] = [0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];
    for settings in [&[][..], &NO_STREAMS] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, client) = (listener.local_addr().unwrap(), Client::new(OPTIONS));
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(settings).await.unwrap();
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        let request = Request::get("http://a/").body(Full::<Bytes>::default()).unwrap();
        let error = within(send(&client, request, move || TcpStream::connect(address))).await.unwrap_err();
        assert!(matches!(error, Error::NoFreeStream(NoFreeStream::NotPermitted { .. })), "{error}");
    }
}

#[tokio::test]
async fn idle_connection_closes() {
    let options = Http2Options { idle_timeout: Duration::from_millis(20), ..OPTIONS };
    let (server, client) = (Server::start(200).await, Client::new(options));
    assert_eq!(length(server.get(&client, "/").await).await, 2);
    let mut open = server.open.clone();
    within(open.wait_for(|open| *open == 0)).await.unwrap();
    assert!(client.is_unused());
    assert_eq!(length(server.get(&client, "/").await).await, 2);
}

#[tokio::test]
async fn ends_unread_upload_some_seconds_after_its_early_response() {
    let (server, client) = (Server::start(1).await, Client::new(OPTIONS));
    let (more, body) = mpsc::unbounded::<Result<Frame<Bytes>, Infallible>>();
    // The first fills the server's window, and the second waits for it.
    for _ in 0..2 {
        more.unbounded_send(Ok(Frame::data(vec![b'x'; 4 << 20].into()))).unwrap();
    }
    let response = within(server.upload(&client, "/unread", StreamBody::new(body))).await.unwrap();
    assert_eq!(length(response).await, 2);
    tokio::time::pause();
    let released = async {
        while !more.is_closed() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), released).await.expect("upload ended");
}

#[tokio::test]
async fn reports_failed_request_body_and_keeps_connection() {
    let (server, client) = (Server::start(1).await, Client::new(OPTIONS));
    let body = stream::iter([
        Ok(Frame::data(Bytes::from_static(b"begin"))),
        Err::<Frame<Bytes>, _>(io::Error::other("client disconnected")),
    ]);
    let failed = within(server.upload(&client, "/hang", StreamBody::new(body))).await;
    assert!(matches!(failed, Err(Error::RequestBody(_))), "{failed:?}");
    assert_eq!(length(server.get(&client, "/").await).await, 2);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn body_with_trailers_ends_with_them() {
    let (server, client) = (Server::start(100).await, Client::new(OPTIONS));
    let mut body = server.get(&client, "/trailers").await.into_body();
    assert_eq!(within(body.frame()).await.unwrap().unwrap().into_data().unwrap(), "data");
    assert!(!body.is_end_stream());
    assert!(within(body.frame()).await.unwrap().unwrap().is_trailers());
    assert!(body.is_end_stream(), "a server that sends it would count the response as cut");
}

#[tokio::test]
async fn response_shorter_than_its_length_is_incomplete() {
    let (server, client) = (Server::start(1).await, Client::new(OPTIONS));
    let response = server.get(&client, "/short").await;
    within(response.into_body().collect()).await.expect_err("the body is cut");
}

#[tokio::test]
async fn malformed_responses_end_no_other_stream_of_their_connection() {
    /// More than h2 permits on a connection by default.
    const RESPONSES: usize = 1100;
    let (server, client) = (Arc::new(Server::start(100).await), Arc::new(Client::new(OPTIONS)));
    let mut hanging = server.hanging.clone();
    let other = {
        let (server, client) = (server.clone(), client.clone());
        tokio::spawn(async move { server.send(&client, "/hang").await.map(drop) })
    };
    within(hanging.wait_for(|hanging| *hanging > 0)).await.unwrap();
    for _ in 0..RESPONSES {
        let response = server.get(&client, "/short").await;
        within(response.into_body().collect()).await.expect_err("the body is cut");
    }
    assert!(!other.is_finished());
    assert_eq!(server.connections(), 1);
}
