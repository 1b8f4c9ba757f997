//! curl, in both versions of HTTP.

mod program;

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use self::program::{Curl, curl};
use crate::app::{self, Body};
use crate::through_both;

/// How to speak HTTP, and the version that it leads to. The wish to upgrade is not granted, and
/// costs nothing.
const DIALECTS: [(&str, &str); 3] =
    [("--http1.1", "1.1"), ("--http2", "1.1"), ("--http2-prior-knowledge", "2")];
/// More than any buffer on the way.
const LARGE: usize = 8 << 20;

fn file() -> Bytes {
    (0..LARGE).map(|at| (at % 251) as u8).collect()
}

/// A file to read, a place to write to, and one that takes nothing.
async fn shop(request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::HEAD, "/file") => {
            Response::builder().header(CONTENT_LENGTH, LARGE).body(app::empty()).unwrap()
        }
        (&Method::GET, "/file") if request.headers().contains_key(RANGE) => {
            assert_eq!(request.headers()[RANGE], "bytes=1000-1999");
            Response::builder()
                .status(StatusCode::PARTIAL_CONTENT)
                .header(CONTENT_RANGE, format!("bytes 1000-1999/{LARGE}"))
                .body(app::full(file().slice(1000..2000)))
                .unwrap()
        }
        (&Method::GET, "/file") => Response::new(app::full(file())),
        (&Method::PUT | &Method::POST, "/upload") => {
            let uploaded = request.into_body().collect().await.unwrap().to_bytes();
            Response::new(app::full(if uploaded == file() { "as it was sent" } else { "damaged" }))
        }
        _ => {
            app::read_on(request.into_body());
            Response::builder().status(StatusCode::FORBIDDEN).body(app::full("no")).unwrap()
        }
    }
}

/// Runs a test through both proxies, in both dialects: `with` runs curl.
async fn in_all_dialects(test: impl AsyncFn(Curl, SocketAddr)) {
    through_both(app::serve(shop).await, async |proxy| {
        for (dialect, version) in DIALECTS {
            test(curl().arg(dialect).expecting(version), proxy).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_large_file_and_a_part_of_it() {
    in_all_dialects(async |curl, proxy| {
        let got = curl.clone().run(&[&format!("http://{proxy}/file")], b"").await;
        assert_eq!((got.status, got.body == file()), (200, true));
        let got = curl.run(&["--range", "1000-1999", &format!("http://{proxy}/file")], b"").await;
        assert_eq!((got.status, got.body == file()[1000..2000]), (206, true));
    })
    .await;
}

#[tokio::test]
async fn head_says_how_long_it_would_be() {
    in_all_dialects(async |curl, proxy| {
        let got = curl.run(&["--head", &format!("http://{proxy}/file")], b"").await;
        let head = String::from_utf8(got.body).unwrap().to_ascii_lowercase();
        assert!(head.contains(&format!("content-length: {LARGE}\r\n")), "{head}");
        assert_eq!(got.status, 200);
    })
    .await;
}

#[tokio::test]
async fn uploads_of_known_and_unknown_length_arrive() {
    in_all_dialects(async |curl, proxy| {
        let to = format!("http://{proxy}/upload");
        for how in ["--data-binary=@-", "--upload-file=-"] {
            let (flag, value) = how.split_once('=').unwrap();
            let got = curl.clone().run(&[flag, value, &to], &file()).await;
            assert_eq!((got.status, got.body.as_slice()), (200, b"as it was sent".as_slice()), "{how}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_upload_that_asks_first_is_told_to_go_on_and_may_be_refused_on_its_way() {
    through_both(app::serve(shop).await, async |proxy| {
        let asking = ["--expect100-timeout", "50", "--header", "Expect: 100-continue", "--upload-file", "-"];
        for (path, status, answer) in [("/upload", 200, "as it was sent"), ("/not-here", 403, "no")] {
            let to = format!("http://{proxy}{path}");
            let arguments = [&asking[..], &["--verbose", &to]].concat();
            let got = curl().arg("--http1.1").run(&arguments, &file()).await;
            assert!(got.told.contains("< HTTP/1.1 100 Continue"), "{}", got.told);
            assert_eq!((got.status, got.body.as_slice()), (status, answer.as_bytes()));
        }
    })
    .await;
}

/// Not of HTTP/2: curl of Debian 12 (7.88) breaks its second request on a connection, whatever the
/// server.
#[tokio::test]
async fn requests_in_turn_share_a_connection() {
    through_both(app::serve(shop).await, async |proxy| {
        let url = format!("http://{proxy}/file");
        let got = curl().arg("--http1.1").run(&["--fail", &url, &url, &url], b"").await;
        assert_eq!((got.body.len(), got.connections), (3 * LARGE, 1));
    })
    .await;
}
