//! Hop-by-hop headers (RFC 9110, 7.6.1).

use crate::case::{Case, ExpectedResponse, case, ok};

/// The rows.
pub fn rows() -> Vec<Case> {
    [requests(), protected(), responses()].concat()
}

fn requests() -> Vec<Case> {
    let gone = [
        ("Connection is removed", "Connection: keep-alive"),
        ("Keep-Alive is removed", "Keep-Alive: timeout=5, max=100"),
        ("Proxy-Connection is removed", "Proxy-Connection: keep-alive"),
        ("Proxy-Authorization is removed", "Proxy-Authorization: Basic YTpi"),
        ("TE of codings is removed", "TE: gzip, deflate;q=0.5"),
        ("Upgrade without Connection: upgrade is removed", "Upgrade: websocket"),
        ("headers named by Connection are removed", "Connection: X-Once\r\nX-Once: 1"),
        ("names in Connection are case-insensitive", "Connection: x-ONCE , keep-alive\r\nX-Once: 1"),
        (
            "several Connection lines are merged",
            "Connection: X-Once\r\nX-Once: 1\r\nConnection: X-Twice\r\nX-Twice: 2",
        ),
        ("empty connection options are ignored", "Connection: ,, X-Once,\r\nX-Once: 1"),
        ("an invalid connection option is ignored", "Connection: X Y, X-Once\r\nX-Once: 1"),
        ("settings for h2c are removed", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    ];
    let row = |(name, lines)| {
        case(name, "RFC 9110, 7.6.1")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\nX-Stays: 1\r\n\r\n"))
            .passes("GET / HTTP/1.1\nhost: a\nx-stays: 1")
    };
    let mut rows = gone.map(row).to_vec();
    let trailers = [
        ("TE: trailers is forwarded, as gRPC requires", "TE: trailers"),
        ("TE: trailers is forwarded if Connection names it", "TE: trailers\r\nConnection: TE"),
        ("TE: trailers among codings is forwarded without them", "TE: gzip, Trailers;q=1"),
        ("TE of codings in a line of its own is removed", "TE: gzip\r\nTE: trailers"),
    ];
    rows.extend(trailers.map(|(name, lines)| {
        case(name, "RFC 9110, 10.1.4")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n"))
            .passes("GET / HTTP/1.1\nhost: a\nte: trailers")
    }));
    rows
}

/// Headers that a client must not be able to remove by naming them in Connection.
fn protected() -> Vec<Case> {
    vec![
        case("Connection cannot remove Host", "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: host\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("Connection cannot remove a length", "RFC 9110, 7.6.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        case("Connection cannot remove a coding", "RFC 9110, 7.6.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
            .passes("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello"),
        case("Connection cannot remove a coding of GET", "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello"),
        case("Connection cannot remove X-Forwarded-For", "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: x-forwarded-for\r\nX-Forwarded-For: 10.1.2.3\r\n\r\n")
            .app_receives_request(crate::case::observed("GET / HTTP/1.1\nhost: a").with("x-forwarded-for: 10.1.2.3, 127.0.0.1"))
            .gets(ok()),
    ]
}

fn responses() -> Vec<Case> {
    let row = |name, lines: &str, gets: ExpectedResponse| {
        case(name, "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds(format!("HTTP/1.1 200 OK\r\n{lines}\r\nx-stays: 1\r\ncontent-length: 2\r\n\r\nok"))
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(gets.with("x-stays: 1"))
    };
    vec![
        row("the app's Connection is removed", "connection: keep-alive", ok().without("connection: ")),
        row("a response's Keep-Alive is removed", "keep-alive: timeout=5", ok().without("keep-alive: ")),
        row(
            "a response's Proxy-Connection is removed",
            "proxy-connection: keep-alive",
            ok().without("proxy-connection: "),
        ),
        row(
            "a response's Proxy-Authenticate is removed",
            "proxy-authenticate: Basic",
            ok().without("proxy-authenticate: "),
        ),
        row(
            "a response's Upgrade is removed",
            "upgrade: h2,h2c\r\nconnection: upgrade",
            ok().without("upgrade: ").without("connection: "),
        ),
        row(
            "headers named by a response's Connection are removed",
            "connection: x-once\r\nx-once: 1",
            ok().without("x-once: "),
        ),
        row(
            "Connection cannot remove a response's length",
            "connection: content-length",
            ok().with("content-length: 2"),
        ),
        row("WWW-Authenticate is forwarded", "www-authenticate: Basic", ok().with("www-authenticate: Basic")),
    ]
}
