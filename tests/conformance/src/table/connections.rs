//! Connections that carry several requests, on either side.

use crate::case::AppAction::{Closes, ExpectsEnd, Reads, Resets, Sends};
use crate::case::{Case, ClientStep, case, ok, problem, response};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The rows.
pub fn rows() -> Vec<Case> {
    [pipelines(), ends(), kept_alive(), authenticated()].concat()
}

fn pipelines() -> Vec<Case> {
    vec![
        case("pipelined requests get responses in order", "RFC 9112, 9.3.2")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .app_responds("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none")
            .passes_first()
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("a body is not parsed as the next request", "RFC 9112, 9.3.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("POST /1 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("chunks are not parsed as the next request", "RFC 9112, 9.3.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("POST /1 HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello")
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("a body with the bytes of a request is forwarded as a body", "RFC 9112, 11.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r")
            .passes("POST /1 HTTP/1.1\ncontent-length: 30\nhost: a\n\nGET /evil HTTP/1.1\r\nHost: a\r\n\r"),
        case("an empty line between requests is ignored", "RFC 9112, 2.2")
            .sends("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("POST /1 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .passes("GET /2 HTTP/1.1\nhost: b"),
        case("bytes after a malformed request are not served", "RFC 9112, 9.3")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("bytes after a bad chunk are not served", "RFC 9112, 7.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_may_receive("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[cut]")
            .is_rejected(400),
        case("requests before a malformed request get responses", "RFC 9112, 9.3.2")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n")
            .passes("GET /1 HTTP/1.1\nhost: a")
            .is_rejected_by_parser(400),
    ]
}

fn ends() -> Vec<Case> {
    vec![
        case("Connection: close ends the connection after the response", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().with("connection: close"))
            .then_closes(),
        case("close is found among other options", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Close\r\n\r\n")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().with("connection: close").without("keep-alive: "))
            .then_closes(),
        case("bytes after a close are not served", "RFC 9112, 9.6")
            .sends(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n",
            )
            .passes("GET / HTTP/1.1\nhost: a")
            .then_closes(),
        case("the app's close does not close the client's connection", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().without("connection: ").without("keep-alive: ")),
        case("a client that sends Connection: keep-alive reads the idle time", "Node, Apache HttpClient")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
            .app_responds("HTTP/1.1 200 OK\r\nkeep-alive: timeout=5\r\ncontent-length: 2\r\n\r\nok")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().with("connection: keep-alive").with("keep-alive: timeout=620")),
        case("a connection without bytes is ignored", "health checks of load balancers")
            .step(ClientStep::ClosesWrite)
            .then_closes(),
    ]
}

/// A request may be sent again only if the app cannot have received it (RFC 9110, 9.2.2).
fn kept_alive() -> Vec<Case> {
    let post = "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let first = |name, source| {
        case(name, source)
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds(OK)
            .passes("GET /1 HTTP/1.1\nhost: a")
    };
    vec![
        first("a connection that the app closed while idle is not used again", "RFC 9112, 9.3.1")
            .app([Closes])
            .step(ClientStep::AwaitsProxy)
            .sends(post)
            .passes("POST /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        first("a connection that the app reset while idle is not used again", "RFC 9112, 9.3.1")
            .app([Resets])
            .step(ClientStep::AwaitsProxy)
            .sends(post)
            .passes("POST /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        first("a request that an app read without a response is not sent twice", "RFC 9110, 9.2.2")
            .app([Reads, Closes])
            .sends(post)
            .app_receives("POST /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .gets(problem(502)),
        first("an idempotent request is sent again if the app may have closed before it", "RFC 9110, 9.2.2")
            .app([Reads, Closes])
            .sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_receives("GET /2 HTTP/1.1\nhost: a")
            .passes("GET /2 HTTP/1.1\nhost: a"),
        first("a small body of an idempotent request is sent again with it", "RFC 9110, 9.2.2")
            .app([Reads, Closes])
            .sends("PUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .app_receives("PUT /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .passes("PUT /2 HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        first("an unsolicited response is discarded", "RFC 9112, 9.2")
            .app([Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil".to_vec())])
            .step(ClientStep::AwaitsProxy)
            .sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /2 HTTP/1.1\nhost: a"),
        case("a second response to one request is discarded", "RFC 9112, 9.2")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds([OK, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"].concat())
            .passes("GET /1 HTTP/1.1\nhost: a"),
        case("bytes beyond a length are discarded", "RFC 9112, 6.3")
            .sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n")
            .passes("GET /1 HTTP/1.1\nhost: a"),
    ]
}

impl Case {
    fn passes_first(self) -> Self {
        self.app_receives("GET /1 HTTP/1.1\nhost: a").gets(response(200).body("one"))
    }
}

/// NTLM and Negotiate authenticate a connection, and all requests on it.
fn authenticated() -> Vec<Case> {
    let source = "RFC 4559, 6; haproxy#581";
    let row = |name, credentials: &str| {
        case(name, source)
            .sends(format!("GET /1 HTTP/1.1\r\nHost: a\r\nAuthorization: {credentials}\r\n\r\n"))
            .app([Reads, Sends(OK.to_vec())])
            .passes(format!("GET /1 HTTP/1.1\nauthorization: {credentials}\nhost: a"))
    };
    let other = |name, credentials| {
        row(name, credentials)
            .app([ExpectsEnd])
            .step(ClientStep::Disconnects)
            .sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /2 HTTP/1.1\nhost: a")
    };
    vec![
        other("a connection that a client authenticates by NTLM closes with this client's", "NTLM TlRM"),
        other(
            "a connection that a client authenticates by Negotiate closes with this client's",
            "negotiate YII",
        ),
        row("a connection that a client authenticates carries its next request", "NTLM TlRM")
            .sends("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
            .app([Reads, Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nalice".to_vec())])
            .app_receives("GET /2 HTTP/1.1\nhost: a")
            .gets(response(200).body("alice")),
    ]
}
