//! curl over HTTP/1.1 and HTTP/2.

mod program;

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use self::program::{Curl, curl};
use crate::app::{self, Body};
use crate::through_each;

/// curl's option for the version, and the version of the transfer. The proxies ignore an upgrade to
/// h2c, so `--http2` results in HTTP/1.1.
const VERSION_OPTIONS: [(&str, &str); 3] =
    [("--http1.1", "1.1"), ("--http2", "1.1"), ("--http2-prior-knowledge", "2")];
/// Larger than all buffers on the path.
const LARGE: usize = 8 << 20;

fn file() -> Bytes {
    (0..LARGE).map(|at| (at % 251) as u8).collect()
}

/// An app with a file to read, a path for uploads, and 403 for all other paths.
async fn file_server(request: Request<Incoming>) -> Response<Body> {
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
            Response::new(app::full(if uploaded == file() { "complete" } else { "damaged" }))
        }
        _ => {
            app::discard(request.into_body());
            Response::builder().status(StatusCode::FORBIDDEN).body(app::full("no")).unwrap()
        }
    }
}

/// Runs a test with both proxies and all versions. The test gets a prepared curl.
async fn with_all_versions(test: impl AsyncFn(Curl, SocketAddr)) {
    through_each(app::serve(file_server).await, async |proxy| {
        for (option, version) in VERSION_OPTIONS {
            test(curl().arg(option).expecting(version), proxy).await;
        }
    })
    .await;
}

#[tokio::test]
async fn downloads_large_file_and_range_of_it() {
    with_all_versions(async |curl, proxy| {
        let got = curl.clone().run(&[&format!("http://{proxy}/file")], b"").await;
        assert_eq!((got.status, got.body == file()), (200, true));
        let got = curl.run(&["--range", "1000-1999", &format!("http://{proxy}/file")], b"").await;
        assert_eq!((got.status, got.body == file()[1000..2000]), (206, true));
    })
    .await;
}

#[tokio::test]
async fn head_response_has_the_length() {
    with_all_versions(async |curl, proxy| {
        let got = curl.run(&["--head", &format!("http://{proxy}/file")], b"").await;
        let head = String::from_utf8(got.body).unwrap().to_ascii_lowercase();
        assert!(head.contains(&format!("content-length: {LARGE}\r\n")), "{head}");
        assert_eq!(got.status, 200);
    })
    .await;
}

#[tokio::test]
async fn uploads_of_known_and_unknown_length_are_complete() {
    with_all_versions(async |curl, proxy| {
        let to = format!("http://{proxy}/upload");
        for how in ["--data-binary=@-", "--upload-file=-"] {
            let (flag, value) = how.split_once('=').unwrap();
            let got = curl.clone().run(&[flag, value, &to], &file()).await;
            assert_eq!((got.status, got.body.as_slice()), (200, b"complete".as_slice()), "{how}");
        }
    })
    .await;
}

#[tokio::test]
async fn upload_with_expectation_gets_100_continue_and_final_status() {
    through_each(app::serve(file_server).await, async |proxy| {
        let expecting =
            ["--expect100-timeout", "50", "--header", "Expect: 100-continue", "--upload-file", "-"];
        for (path, status, answer) in [("/upload", 200, "complete"), ("/not-here", 403, "no")] {
            let to = format!("http://{proxy}{path}");
            let arguments = [&expecting[..], &["--verbose", &to]].concat();
            let got = curl().arg("--http1.1").run(&arguments, &file()).await;
            assert!(got.stderr.contains("< HTTP/1.1 100 Continue"), "{}", got.stderr);
            assert_eq!((got.status, got.body.as_slice()), (status, answer.as_bytes()));
        }
    })
    .await;
}

/// HTTP/1.1 only: curl 7.88 of Debian 12 breaks the second HTTP/2 request on a connection with any
/// server.
#[tokio::test]
async fn sequential_requests_share_a_connection() {
    through_each(app::serve(file_server).await, async |proxy| {
        let url = format!("http://{proxy}/file");
        let got = curl().arg("--http1.1").run(&["--fail", &url, &url, &url], b"").await;
        assert_eq!((got.body.len(), got.connections), (3 * LARGE, 1));
    })
    .await;
}
