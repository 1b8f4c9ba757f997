//! Connections that carry several requests, on either side.

use crate::case::Act::{Closes, Reads, Resets, Sends};
use crate::case::{Case, Step, answer, case, ok, problem};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The rows.
pub fn rows() -> Vec<Case> {
    [pipelines(), ends(), kept_alive()].concat()
}

fn pipelines() -> Vec<Case> {
    vec![
        case("two requests at once are answered in order", "RFC 9112, 9.3.2")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .app_answers("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none")
            .passes_first()
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("a body is not the next request", "RFC 9112, 9.3.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("POST /1 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("chunks are not the next request", "RFC 9112, 9.3.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("POST /1 HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello")
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("a body that looks like a request is a body", "RFC 9112, 11.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r")
            .passes("POST /1 HTTP/1.1\ncontent-length: 30\nhost: a\n\nGET /evil HTTP/1.1\r\nHost: a\r\n\r"),
        case("an empty line between requests is overlooked", "RFC 9112, 2.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("POST /1 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("nothing behind a malformed request is served", "RFC 9112, 9.3")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("nothing behind a bad chunk is served", "RFC 9112, 7.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_may_see("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[cut]")
            .is_refused(400),
        case("what came before a malformed request is answered", "RFC 9112, 9.3.2")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n")
            .passes("GET /1 HTTP/1.1\nhost: a")
            .is_refused_by_the_parser(400),
    ]
}

fn ends() -> Vec<Case> {
    vec![
        case("Connection: close ends it after the answer", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(ok().with("connection: close"))
            .then_closes(),
        case("close is found among other options", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Close\r\n\r\n")
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(ok().with("connection: close"))
            .then_closes(),
        case("nothing behind a close is served", "RFC 9112, 9.6")
            .sends(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
            )
            .passes("GET / HTTP/1.1\nhost: a")
            .then_closes(),
        case("the app's close is not the caller's", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_answers("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(ok().without("connection: ")),
        case("a connection that brings nothing is nothing", "health checks of load balancers")
            .step(Step::Finishes)
            .then_closes(),
    ]
}

/// A request may be sent again only when the app cannot have seen it (RFC 9110, 9.2.2).
fn kept_alive() -> Vec<Case> {
    let post = "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let first = |name, source| {
        case(name, source)
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_answers(OK)
            .passes("GET /1 HTTP/1.1\nhost: a")
    };
    vec![
        first("a connection that the app closed while idle is not used again", "RFC 9112, 9.3.1")
            .app([Closes])
            .step(Step::AwaitsProxy)
            .sends(post)
            .passes("POST /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        first("one that it reset neither", "RFC 9112, 9.3.1")
            .app([Resets])
            .step(Step::AwaitsProxy)
            .sends(post)
            .passes("POST /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        first("a request that an app read and left is not sent twice", "RFC 9110, 9.2.2")
            .app([Reads, Closes])
            .sends(post)
            .app_sees("POST /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .gets(problem(502)),
        first("unless it may be: the app may have closed before it came", "RFC 9110, 9.2.2")
            .app([Reads, Closes])
            .sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_sees("GET /2 HTTP/1.1\nhost: a")
            .passes("GET /2 HTTP/1.1\nhost: a"),
        first("an answer that nobody asked for is given to nobody", "RFC 9112, 9.2")
            .app([Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil".to_vec())])
            .step(Step::AwaitsProxy)
            .sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /2 HTTP/1.1\nhost: a"),
        case("an answer behind an answer is given to nobody", "RFC 9112, 9.2")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_answers([OK, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"].concat())
            .passes("GET /1 HTTP/1.1\nhost: a"),
        case("bytes beyond a length are given to nobody", "RFC 9112, 6.3")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_answers("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n")
            .passes("GET /1 HTTP/1.1\nhost: a"),
    ]
}

impl Case {
    fn passes_first(self) -> Self {
        self.app_sees("GET /1 HTTP/1.1\nhost: a").gets(answer(200).body("one"))
    }
}
