//! Headers of one connection, which stay on it (RFC 9110, 7.6.1).

use crate::case::{Answer, Case, case, ok};

/// The rows.
pub fn rows() -> Vec<Case> {
    [requests(), protected(), responses()].concat()
}

fn requests() -> Vec<Case> {
    let gone = [
        ("Connection stays behind", "Connection: keep-alive"),
        ("Keep-Alive stays behind", "Keep-Alive: timeout=5, max=100"),
        ("Proxy-Connection stays behind", "Proxy-Connection: keep-alive"),
        ("Proxy-Authorization stays behind", "Proxy-Authorization: Basic YTpi"),
        ("TE of codings stays behind", "TE: gzip, deflate;q=0.5"),
        ("Upgrade that nobody asks for stays behind", "Upgrade: websocket"),
        ("what Connection names goes with it", "Connection: X-Once\r\nX-Once: 1"),
        ("names have no case there", "Connection: x-ONCE , keep-alive\r\nX-Once: 1"),
        ("several lines of it count", "Connection: X-Once\r\nX-Once: 1\r\nConnection: X-Twice\r\nX-Twice: 2"),
        ("empty options are overlooked", "Connection: ,, X-Once,\r\nX-Once: 1"),
        ("an option that is no name is overlooked", "Connection: X Y, X-Once\r\nX-Once: 1"),
        ("settings for h2c stay behind", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    ];
    let row = |(name, lines)| {
        case(name, "RFC 9110, 7.6.1")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\nX-Stays: 1\r\n\r\n"))
            .passes("GET / HTTP/1.1\nhost: a\nx-stays: 1")
    };
    let mut rows = gone.map(row).to_vec();
    let trailers = [
        ("TE: trailers passes: gRPC insists on it", "TE: trailers"),
        ("also where Connection names it, as it should", "TE: trailers\r\nConnection: TE"),
        ("also among codings, alone", "TE: gzip, Trailers;q=1"),
        ("also in a line of its own", "TE: gzip\r\nTE: trailers"),
    ];
    rows.extend(trailers.map(|(name, lines)| {
        case(name, "RFC 9110, 10.1.4")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n"))
            .passes("GET / HTTP/1.1\nhost: a\nte: trailers")
    }));
    rows
}

/// What a caller must not be able to take away by calling it a header of the connection.
fn protected() -> Vec<Case> {
    vec![
        case("Host cannot be taken away", "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: host\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("a length cannot be taken away", "RFC 9110, 7.6.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        case("a coding cannot be taken away", "RFC 9110, 7.6.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
            .passes("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello"),
        case("a coding of GET cannot be taken away", "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello"),
        case("who asked cannot be taken away", "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: x-forwarded-for\r\nX-Forwarded-For: 10.1.2.3\r\n\r\n")
            .app_sees_just(crate::case::seen("GET / HTTP/1.1\nhost: a").with("x-forwarded-for: 10.1.2.3, 127.0.0.1"))
            .gets(ok()),
    ]
}

fn responses() -> Vec<Case> {
    let row = |name, lines: &str, gets: Answer| {
        case(name, "RFC 9110, 7.6.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_answers(format!("HTTP/1.1 200 OK\r\n{lines}\r\nx-stays: 1\r\ncontent-length: 2\r\n\r\nok"))
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(gets.with("x-stays: 1"))
    };
    vec![
        row("the app's Connection stays behind", "connection: keep-alive", ok().without("connection: ")),
        row("its Keep-Alive stays behind", "keep-alive: timeout=5", ok().without("keep-alive: ")),
        row(
            "its Proxy-Connection stays behind",
            "proxy-connection: keep-alive",
            ok().without("proxy-connection: "),
        ),
        row(
            "its Proxy-Authenticate stays behind",
            "proxy-authenticate: Basic",
            ok().without("proxy-authenticate: "),
        ),
        row(
            "its Upgrade stays behind",
            "upgrade: h2,h2c\r\nconnection: upgrade",
            ok().without("upgrade: ").without("connection: "),
        ),
        row(
            "what its Connection names goes with it",
            "connection: x-once\r\nx-once: 1",
            ok().without("x-once: "),
        ),
        row("its length cannot be taken away", "connection: content-length", ok().with("content-length: 2")),
        row(
            "WWW-Authenticate is the caller's",
            "www-authenticate: Basic",
            ok().with("www-authenticate: Basic"),
        ),
    ]
}
