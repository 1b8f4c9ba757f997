//! The pool and exchanges against a server that writes raw bytes: reuse of connections and retries.
//! Malformed responses are in the conformance table.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const OPTIONS: PoolOptions = PoolOptions { idle_timeout: Duration::from_secs(60), max_idle: 8 };

struct App(TcpListener);

impl App {
    async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    async fn accept(&self) -> TcpStream {
        self.0.accept().await.unwrap().0
    }
}

/// Reads until `end`, then writes `answer`.
async fn answer(connection: &mut TcpStream, end: &str, answer: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        assert_ne!(connection.read_buf(&mut read).await.unwrap(), 0, "{}", String::from_utf8_lossy(&read));
    }
    connection.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(read).unwrap()
}

async fn send<B>(pool: &Pool, app: &App, request: Request<B>) -> Result<Response<ResponseBody>, Error>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    send_for(None, pool, app, request).await
}

async fn send_for<B>(
    client: Option<&BoundConnection>,
    pool: &Pool,
    app: &App,
    request: Request<B>,
) -> Result<Response<ResponseBody>, Error>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let address = app.address();
    let (head, body) = request.into_parts();
    let sent = pool.send(head, body, client, || TcpStream::connect(address));
    tokio::time::timeout(Duration::from_secs(10), sent).await.unwrap()
}

async fn text(response: Response<ResponseBody>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn get() -> Request<Full<Bytes>> {
    Request::get("/a?b").header("host", "x").body(Full::default()).unwrap()
}

fn post(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("/").header("content-length", body.len()).body(Full::from(body)).unwrap()
}

#[tokio::test]
async fn reuses_connection_after_complete_response() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let serve = async {
        let mut connection = app.accept().await;
        for reply in [
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
        ] {
            let seen = answer(&mut connection, "\r\n\r\n", reply).await;
            assert_eq!(seen, "GET /a?b HTTP/1.1\r\nhost: x\r\n\r\n");
        }
    };
    let client = async {
        for _ in 0..3 {
            assert_eq!(text(send(&pool, &app, get()).await.unwrap()).await, "ok");
        }
    };
    tokio::join!(serve, client);
}

#[tokio::test]
async fn authenticated_connection_serves_its_client_alone() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let (alice, mallory) = (BoundConnection::default(), BoundConnection::default());
    for credentials in ["NTLM type1", "negotiate abc"] {
        let request = |credentials: Option<&str>| {
            let mut request = get();
            let credentials = credentials.map(|credentials| credentials.parse().unwrap());
            request.headers_mut().extend(credentials.map(|credentials| (AUTHORIZATION, credentials)));
            request
        };
        // The connection of each request, by what it responds.
        let respond = async |connection: &mut TcpStream, text: &str| {
            answer(connection, "\r\n\r\n", &format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{text}"))
                .await
        };
        let sent = send_for(Some(&alice), &pool, &app, request(Some(credentials)));
        let (first, mut bound) = tokio::join!(sent, async {
            let mut connection = app.accept().await;
            respond(&mut connection, "a").await;
            connection
        });
        assert_eq!(text(first.unwrap()).await, "a");
        let sent = send_for(Some(&mallory), &pool, &app, request(None));
        let (other, mut shared) = tokio::join!(sent, async {
            let mut connection = app.accept().await;
            respond(&mut connection, "m").await;
            connection
        });
        assert_eq!(text(other.unwrap()).await, "m");
        let sent = send_for(Some(&alice), &pool, &app, request(None));
        let (again, _) = tokio::join!(sent, respond(&mut bound, "b"));
        assert_eq!(text(again.unwrap()).await, "b");
        // Without a client to keep it, the connection closes.
        let sent = send_for(None, &pool, &app, request(Some(credentials)));
        let (once, _) = tokio::join!(sent, respond(&mut shared, "c"));
        assert_eq!(text(once.unwrap()).await, "c");
        assert_eq!(shared.read(&mut [0]).await.unwrap(), 0);
        drop(bound);
    }
}

#[tokio::test]
async fn closes_connection_that_is_not_persistent_or_has_stray_bytes() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    for reply in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let serve = async { answer(&mut app.accept().await, "\r\n\r\n", reply).await };
        let (_, response) = tokio::join!(serve, send(&pool, &app, get()));
        assert_eq!(text(response.unwrap()).await, "ok");
    }
}

#[tokio::test]
async fn closes_connection_when_body_is_dropped() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let mut connection = None;
    let serve = async {
        let connection = connection.insert(app.accept().await);
        answer(connection, "\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok").await
    };
    let (_, response) = tokio::join!(serve, send(&pool, &app, get()));
    drop(response.unwrap());
    assert_eq!(connection.unwrap().read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn retries_only_idempotent_requests_when_idle_connection_closes() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    for again in [true, false] {
        let request = || if again { get() } else { post("hello") };
        let end = if again { "\r\n\r\n" } else { "hello" };
        let serve = async {
            let mut connection = app.accept().await;
            answer(&mut connection, end, "HTTP/1.1 204 No Content\r\n\r\n").await;
            // Reads the request and closes without a response.
            answer(&mut connection, end, "").await;
            drop(connection);
            if again {
                let mut connection = app.accept().await;
                answer(&mut connection, end, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
            }
        };
        let client = async {
            assert_eq!(send(&pool, &app, request()).await.unwrap().status(), 204);
            match send(&pool, &app, request()).await {
                Ok(response) => assert!(again && response.status() == 200),
                Err(error) => assert!(!again && matches!(error, Error::Unanswered(_)), "{error}"),
            }
        };
        tokio::join!(serve, client);
    }
}

#[tokio::test]
async fn retries_idempotent_request_with_small_body() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let put = |body: &'static str| {
        Request::put("/").header("content-length", body.len()).body(Full::from(body)).unwrap()
    };
    let serve = async {
        let mut connection = app.accept().await;
        answer(&mut connection, "hello", "HTTP/1.1 204 No Content\r\n\r\n").await;
        let first = answer(&mut connection, "again", "").await;
        drop(connection);
        let second = answer(&mut app.accept().await, "again", "HTTP/1.1 200 OK\r\n\r\n").await;
        assert_eq!(first, second);
    };
    let client = async {
        assert_eq!(send(&pool, &app, put("hello")).await.unwrap().status(), 204);
        assert_eq!(send(&pool, &app, put("again")).await.unwrap().status(), 200);
    };
    tokio::join!(serve, client);
}

#[tokio::test]
async fn distinguishes_close_before_response_from_close_within_head() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    for (reply, unanswered) in [("", true), ("HTTP/1.1 200 OK\r\nx", false)] {
        let serve = async { answer(&mut app.accept().await, "\r\n\r\n", reply).await };
        let (_, response) = tokio::join!(serve, send(&pool, &app, get()));
        let error = response.unwrap_err();
        assert_eq!(matches!(error, Error::Unanswered(_)), unanswered, "{error}");
    }
}

#[tokio::test]
async fn continues_upload_behind_early_response() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let (more, body) = futures::channel::mpsc::unbounded::<Result<Frame<Bytes>, io::Error>>();
    let send_part = |part: Vec<u8>| more.unbounded_send(Ok(Frame::data(part.into()))).unwrap();
    let request = Request::post("/").body(StreamBody::new(body)).unwrap();
    let mut connection = None;
    send_part(b"first".to_vec());
    let serve = async {
        let connection = connection.insert(app.accept().await);
        answer(connection, "first\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await
    };
    let (seen, response) = tokio::join!(serve, send(&pool, &app, request));
    assert!(seen.contains("transfer-encoding: chunked\r\n"), "{seen}");
    assert_eq!(text(response.unwrap()).await, "ok");
    // Larger than MAX_COPIED and than the socket buffers.
    send_part(vec![b'x'; 8 << 20]);
    drop(more);
    let mut rest = Vec::new();
    connection.unwrap().read_to_end(&mut rest).await.unwrap();
    assert!(rest.starts_with(b"800000\r\nx") && rest.ends_with(b"x\r\n0\r\n\r\n"));
    assert_eq!(rest.len(), b"800000\r\n".len() + (8 << 20) + b"\r\n0\r\n\r\n".len());
}

#[tokio::test]
async fn ends_unread_upload_some_seconds_after_its_early_response() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let (more, body) = futures::channel::mpsc::unbounded::<Result<Frame<Bytes>, io::Error>>();
    let request = Request::post("/").body(StreamBody::new(body)).unwrap();
    // More than the socket buffers take.
    more.unbounded_send(Ok(Frame::data(vec![b'x'; 64 << 20].into()))).unwrap();
    let serve = async {
        let mut connection = app.accept().await;
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        // Open, but never read.
        connection
    };
    let (_connection, response) = tokio::join!(serve, send(&pool, &app, request));
    assert_eq!(text(response.unwrap()).await, "ok");
    tokio::time::pause();
    let released = async {
        while !more.is_closed() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(15), released).await.unwrap();
}

/// A proxy closes its sending side behind an early response, and discards the rest of the upload.
#[tokio::test]
async fn ends_upload_when_the_server_closes_its_sending_side_behind_the_response() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let (more, body) = futures::channel::mpsc::unbounded::<Result<Frame<Bytes>, io::Error>>();
    let request = Request::post("/").body(StreamBody::new(body)).unwrap();
    let serve = async {
        let mut connection = app.accept().await;
        connection.write_all(b"HTTP/1.1 413 No\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
        connection
    };
    let (mut connection, response) = tokio::join!(serve, send(&pool, &app, request));
    assert_eq!(text(response.unwrap()).await, "no");
    assert!(!more.is_closed());
    connection.shutdown().await.unwrap();
    let released = async {
        while !more.is_closed() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(late_upload::LINGER / 2, released).await.unwrap();
}

#[tokio::test]
async fn reports_failed_request_body_as_such() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let short = Request::post("/").header("content-length", 9).body(Full::from("short")).unwrap();
    assert!(matches!(send(&pool, &app, short).await, Err(Error::RequestBody(_))));
    let body = stream::iter([Err::<Frame<Bytes>, _>(io::Error::other("reset"))]);
    let cut = Request::post("/").body(StreamBody::new(body)).unwrap();
    assert!(matches!(send(&pool, &app, cut).await, Err(Error::RequestBody(_))));
}

#[tokio::test]
async fn closes_connection_after_idle_timeout() {
    let pool = Pool::new(PoolOptions { idle_timeout: Duration::from_millis(20), ..OPTIONS });
    let app = App::start().await;
    let serve = async {
        let mut connection = app.accept().await;
        answer(&mut connection, "\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n").await;
        connection.read(&mut [0]).await.unwrap()
    };
    let (read, response) = tokio::join!(serve, send(&pool, &app, get()));
    assert_eq!((read, response.unwrap().status().as_u16()), (0, 204));
}
