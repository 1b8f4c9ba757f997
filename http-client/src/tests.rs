//! An app of raw bytes behind a pool: when connections are kept, and what is sent twice. Odd messages are in the conformance
//! table.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const OPTIONS: PoolOptions = PoolOptions { idle: Duration::from_secs(60), most_idle: 8 };

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

/// Reads until `end`, and answers.
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
    let address = app.address();
    let (head, body) = request.into_parts();
    let sent = pool.send(head, body, || TcpStream::connect(address));
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
async fn a_connection_is_used_again_once_its_response_has_ended() {
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
    let ask = async {
        for _ in 0..3 {
            assert_eq!(text(send(&pool, &app, get()).await.unwrap()).await, "ok");
        }
    };
    tokio::join!(serve, ask);
}

#[tokio::test]
async fn a_connection_is_left_if_the_next_response_would_not_begin_there() {
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
async fn a_body_that_was_dropped_ends_its_connection() {
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
async fn only_what_may_be_sent_twice_goes_out_again_when_a_kept_connection_ends() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    for again in [true, false] {
        let request = || if again { get() } else { post("hello") };
        let end = if again { "\r\n\r\n" } else { "hello" };
        let serve = async {
            let mut connection = app.accept().await;
            answer(&mut connection, end, "HTTP/1.1 204 No Content\r\n\r\n").await;
            // Read, and closed without an answer.
            answer(&mut connection, end, "").await;
            drop(connection);
            if again {
                let mut connection = app.accept().await;
                answer(&mut connection, end, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
            }
        };
        let ask = async {
            assert_eq!(send(&pool, &app, request()).await.unwrap().status(), 204);
            match send(&pool, &app, request()).await {
                Ok(response) => assert!(again && response.status() == 200),
                Err(error) => assert!(!again && matches!(error, Error::Unanswered(_)), "{error}"),
            }
        };
        tokio::join!(serve, ask);
    }
}

#[tokio::test]
async fn an_end_without_an_answer_is_told_apart_from_an_answer_that_breaks_off() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    for (reply, unanswered) in [("", true), ("HTTP/1.1 200 OK\r\nx", false)] {
        let serve = async { answer(&mut app.accept().await, "\r\n\r\n", reply).await };
        let (_, response) = tokio::join!(serve, send(&pool, &app, get()));
        let error = response.unwrap_err();
        assert_eq!(matches!(error, Error::Unanswered(_)), unanswered, "{error}");
    }
}

#[tokio::test]
async fn an_upload_goes_on_behind_an_early_answer() {
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
    // Larger than what is copied, and than the sockets' buffers.
    send_part(vec![b'x'; 8 << 20]);
    drop(more);
    let mut rest = Vec::new();
    connection.unwrap().read_to_end(&mut rest).await.unwrap();
    assert!(rest.starts_with(b"800000\r\nx") && rest.ends_with(b"x\r\n0\r\n\r\n"));
    assert_eq!(rest.len(), b"800000\r\n".len() + (8 << 20) + b"\r\n0\r\n\r\n".len());
}

#[tokio::test]
async fn a_caller_that_fails_is_told_apart_from_an_app_that_does() {
    let (app, pool) = (App::start().await, Pool::new(OPTIONS));
    let short = Request::post("/").header("content-length", 9).body(Full::from("short")).unwrap();
    assert!(matches!(send(&pool, &app, short).await, Err(Error::RequestBody(_))));
    let body = stream::iter([Err::<Frame<Bytes>, _>(io::Error::other("reset"))]);
    let cut = Request::post("/").body(StreamBody::new(body)).unwrap();
    assert!(matches!(send(&pool, &app, cut).await, Err(Error::RequestBody(_))));
}

#[tokio::test]
async fn what_rests_for_long_is_closed() {
    let pool = Pool::new(PoolOptions { idle: Duration::from_millis(20), ..OPTIONS });
    let app = App::start().await;
    let serve = async {
        let mut connection = app.accept().await;
        answer(&mut connection, "\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n").await;
        connection.read(&mut [0]).await.unwrap()
    };
    let (read, response) = tokio::join!(serve, send(&pool, &app, get()));
    assert_eq!((read, response.unwrap().status().as_u16()), (0, 204));
}
