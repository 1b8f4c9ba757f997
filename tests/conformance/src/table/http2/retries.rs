//! HTTP/2 requests that the app has not processed, or may not have received: they are sent again.

use crate::case::{ok, problem};
use crate::http2::Http2Action::{Closes, Reads, Sends};
use crate::http2::code::*;
use crate::http2::{Frame, Http2Case, Http2Step, case, data, get, goaway, headers, request, reset};

const SEEN_GET: &str = "GET / HTTP/2\n:authority: a";
const SEEN_POST: &str = "POST / HTTP/2\n:authority: a\n\nhello";

/// The rows.
pub(super) fn rows() -> Vec<Http2Case> {
    [unprocessed(), refused_again_and_again(), unanswered(), begun()].concat()
}

fn post() -> [Frame; 2] {
    [request(1, "POST", "/", &[]), data(1, "hello").ending()]
}

/// The app promises not to have processed the request, so any method is sent again.
fn unprocessed() -> Vec<Http2Case> {
    vec![
        case("a stream that the app refuses is sent again", "RFC 9113, 8.7")
            .sends([get(1, "/")])
            .app_responds([reset(1, REFUSED_STREAM)])
            .app_receives(SEEN_GET)
            .app_receives(SEEN_GET)
            .gets(1, ok()),
        case("a stream with a small body that the app refuses is sent again", "RFC 9113, 8.7")
            .sends(post())
            .app_responds([reset(1, REFUSED_STREAM)])
            .app_receives(SEEN_POST)
            .app_receives(SEEN_POST)
            .gets(1, ok()),
        case("a refused body that ends with an empty frame is sent again", "Node's http2, grpc's C core")
            .sends([request(1, "POST", "/", &[]), data(1, "hello"), data(1, "").ending()])
            .app_responds([reset(1, REFUSED_STREAM)])
            .app_receives(SEEN_POST)
            .app_receives(SEEN_POST)
            .gets(1, ok()),
        case("a refused body of several frames is sent again with its trailers", "RFC 9113, 8.7")
            .sends([request(1, "POST", "/", &[]), data(1, "he"), data(1, "llo")])
            .sends([headers(1, &[("x-sum", "1")]).ending()])
            .app_responds([reset(1, REFUSED_STREAM)])
            .app_receives(format!("{SEEN_POST}\n\nx-sum: 1"))
            .app_receives(format!("{SEEN_POST}\n\nx-sum: 1"))
            .gets(1, ok()),
        case("a stream above an app's GOAWAY is sent again", "RFC 9113, 6.8; nginx#1431")
            .sends([get(1, "/")])
            .app_responds([goaway(0, NO_ERROR)])
            .app([Closes])
            .app_receives(SEEN_GET)
            .app_receives(SEEN_GET)
            .gets(1, ok()),
        case("a stream above an app's GOAWAY with an error is sent again", "RFC 9113, 6.8")
            .sends([get(1, "/")])
            .app_responds([goaway(0, INTERNAL_ERROR)])
            .app([Closes])
            .app_receives(SEEN_GET)
            .app_receives(SEEN_GET)
            .gets(1, ok()),
        case("a POST above an app's GOAWAY is sent again", "RFC 9113, 6.8")
            .sends(post())
            .app_responds([goaway(0, NO_ERROR)])
            .app([Closes])
            .app_receives(SEEN_POST)
            .app_receives(SEEN_POST)
            .gets(1, ok()),
        case("a POST above an app's GOAWAY that ends with an empty frame is sent again", "RFC 9113, 6.8")
            .sends([request(1, "POST", "/", &[]), data(1, "hello"), data(1, "").ending()])
            .app_responds([goaway(0, NO_ERROR)])
            .app([Closes])
            .app_receives(SEEN_POST)
            .app_receives(SEEN_POST)
            .gets(1, ok()),
    ]
}

fn refused_again_and_again() -> Vec<Http2Case> {
    let refuses = || [Reads, Sends(vec![reset(1, REFUSED_STREAM)])];
    let always = case("a stream that the app refuses again and again gets 503", "RFC 9113, 8.7")
        .sends([get(1, "/")])
        .gets(1, problem(503));
    let always = (0..4).fold(always, |row, _| row.app(refuses()).app_receives(SEEN_GET));
    vec![always]
}

/// A response shows that the request was processed, whatever the app's reset says.
fn begun() -> Vec<Http2Case> {
    let begins = vec![headers(1, &[(":status", "200")]), data(1, "half"), reset(1, REFUSED_STREAM)];
    let row = case("a stream that the app refuses in its response is not sent again", "RFC 9113, 8.7")
        .sends(post())
        .app_responds(begins)
        .app_receives(SEEN_POST)
        .step(Http2Step::AwaitsEnd(1));
    vec![row]
}

/// The connection closes without a promise, so only idempotent methods are sent again.
fn unanswered() -> Vec<Http2Case> {
    let second = |name, frames: Vec<Frame>, seen: &str| {
        case(name, "RFC 9110, 9.2.2")
            .sends([get(1, "/1")])
            .app_responds([headers(1, &[(":status", "200")]), data(1, "ok").ending()])
            .app_receives("GET /1 HTTP/2\n:authority: a")
            .gets(1, ok())
            .app([Reads, Closes])
            .sends(frames)
            .app_receives(seen)
    };
    let post = vec![request(3, "POST", "/", &[]), data(3, "hello").ending()];
    vec![
        second("a GET on a reused connection that closes is sent again", vec![get(3, "/")], SEEN_GET)
            .app_receives(SEEN_GET)
            .gets(3, ok()),
        second("a POST on a reused connection that closes fails", post, SEEN_POST).gets(3, problem(502)),
    ]
}
