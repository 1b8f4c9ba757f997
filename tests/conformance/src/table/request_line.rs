//! Methods, request targets and versions.

use crate::case::{Case, case, ok, response};

/// The rows.
pub fn rows() -> Vec<Case> {
    [methods(), targets(), forms_of_target(), versions(), line_ends()].concat()
}

fn methods() -> Vec<Case> {
    vec![
        case("an ordinary request is forwarded", "RFC 9110, 9.3.1")
            .sends("GET /a/b?c=d HTTP/1.1\r\nHost: web.example\r\n\r\n")
            .passes("GET /a/b?c=d HTTP/1.1\nhost: web.example"),
        case("an unknown method is forwarded", "RFC 9110, 9.1")
            .sends("BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("BREW /pot HTTP/1.1\nhost: a"),
        case("a method of all characters of a token is forwarded", "RFC 9110, 5.6.2")
            .sends("M!#$%&'*+-.^_`|~9 / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("M!#$%&'*+-.^_`|~9 / HTTP/1.1\nhost: a"),
        case("the case of a method is preserved", "RFC 9110, 9.1")
            .sends("get / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("get / HTTP/1.1\nhost: a"),
        case("OPTIONS of a resource is forwarded", "RFC 9110, 9.3.7")
            .sends("OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("OPTIONS /a HTTP/1.1\nhost: a"),
        case("TRACE and Max-Forwards are forwarded", "RFC 9110, 9.3.8 (7.6.2: gateways need not count)")
            .sends("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
            .passes("TRACE / HTTP/1.1\nhost: a\nmax-forwards: 0"),
        case("PUT without a body is forwarded without a body", "RFC 9112, 6.3")
            .sends("PUT / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("PUT / HTTP/1.1\nhost: a"),
        case("CONNECT is rejected", "RFC 9110, 9.3.6")
            .sends("CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\n")
            .is_rejected(501),
        case("CONNECT of a path is rejected", "RFC 9110, 9.3.6")
            .sends("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected(501),
        case("a method with a separator is malformed", "RFC 9110, 5.6.2")
            .sends("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a method with a NUL is malformed", "RFC 9110, 5.6.2")
            .sends("G\0T / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a method beyond ASCII is malformed", "RFC 9110, 5.6.2")
            .sends(b"G\xc3\x89T / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("version 1 of the PROXY protocol is rejected", "haproxy's proxy-protocol.txt, 2.1")
            .sends("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("version 2 of the PROXY protocol is rejected", "haproxy's proxy-protocol.txt, 2.2")
            .sends(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a request without a method is malformed", "RFC 9112, 3")
            .sends(" / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
    ]
}

fn targets() -> Vec<Case> {
    vec![
        case("a path is not normalized", "RFC 9112, 3.2.1")
            .sends("GET //a//b/../c/./%2e%2E/%2F;d=1?e=/../ HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET //a//b/../c/./%2e%2E/%2F;d=1?e=/../ HTTP/1.1\nhost: a"),
        case("an invalid percent encoding is forwarded", "RFC 3986, 2.1; apps differ on it")
            .sends("GET /100%zz% HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /100%zz% HTTP/1.1\nhost: a"),
        case("an empty query is preserved", "RFC 3986, 3.4")
            .sends("GET /a? HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /a? HTTP/1.1\nhost: a"),
        case(
            "query characters that browsers do not encode are forwarded",
            "RFC 3986, 3.4; clients send them",
        )
        .sends("GET /?a={b}|c^[d]~`\\e HTTP/1.1\r\nHost: a\r\n\r\n")
        .passes("GET /?a={b}|c^[d]~`\\e HTTP/1.1\nhost: a"),
        case("unencoded quotes in a query are rejected", "RFC 3986, 3.4; nginx forwards them")
            .sends("GET /?a=\"b\" HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a fragment is dropped", "RFC 9112, 3.2.1")
            .sends("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /a HTTP/1.1\nhost: a"),
        case("bytes beyond ASCII in a path are forwarded as they are", "RFC 3986, 2; nginx and Envoy do so")
            .sends("GET /caf\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /caf\u{c3}\u{a9} HTTP/1.1\nhost: a"),
        case("bytes in a path that are not UTF-8 are rejected", "RFC 3986, 2")
            .sends(b"GET /caf\xe9 HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("8,000 bytes of path are forwarded", "RFC 9112, 3")
            .sends(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(8000)))
            .passes(format!("GET /{} HTTP/1.1\nhost: a", "p".repeat(8000))),
        case("a target above the bound of the head is rejected", "RFC 9110, 15.5.15; 431 instead of 414")
            // Up to twice the bound a read may complete the head before its length is checked.
            .sends(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(200_000)))
            .is_rejected_by_parser(431),
        case("a NUL in a path is rejected", "RFC 9112, 3.2")
            .sends("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a control byte in a path is rejected", "RFC 9112, 3.2")
            .sends("GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("DEL in a path is rejected", "RFC 9112, 3.2")
            .sends("GET /a\x7fb HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a space in a path is rejected", "RFC 9112, 3")
            .sends("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a tab in a path is rejected", "RFC 9112, 3")
            .sends("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a CR in a path is rejected", "RFC 9112, 2.2")
            .sends("GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a request without a target is malformed", "RFC 9112, 3")
            .sends("GET HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
    ]
}

fn forms_of_target() -> Vec<Case> {
    vec![
        case("the authority of an absolute target replaces Host", "RFC 9112, 3.2.2")
            .sends("GET http://b.example:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /x?y HTTP/1.1\nhost: b.example:81"),
        case("an absolute target without a path has the path /", "RFC 9112, 3.2.2")
            .sends("GET http://b HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: b"),
        case(
            "an absolute target with scheme https is accepted",
            "RFC 9110, 7.4; TLS may end in front of the proxy",
        )
        .sends("GET https://b/x HTTP/1.1\r\nHost: b\r\n\r\n")
        .passes("GET /x HTTP/1.1\nhost: b"),
        case("an absolute target without a Host is rejected", "RFC 9112, 3.2")
            .sends("GET http://b/x HTTP/1.1\r\n\r\n")
            .is_rejected(400),
        case("a target with a user in it is rejected", "RFC 9110, 4.2.4")
            .sends("GET http://admin@b/x HTTP/1.1\r\nHost: b\r\n\r\n")
            .is_rejected(400),
        case("a target of another scheme is rejected", "RFC 9110, 7.4")
            .sends("GET ftp://b/x HTTP/1.1\r\nHost: b\r\n\r\n")
            .is_rejected(400),
        case("OPTIONS of the whole server is forwarded", "RFC 9112, 3.2.4")
            .sends("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("OPTIONS * HTTP/1.1\nhost: a"),
        case("only OPTIONS may have the target *", "RFC 9112, 3.2.4")
            .sends("GET * HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected(400),
        case("only CONNECT may have an authority as target", "RFC 9112, 3.2.3")
            .sends("GET b:80 HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected(400),
        case("a relative target is rejected", "RFC 9112, 3.2")
            .sends("GET a/b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
    ]
}

fn versions() -> Vec<Case> {
    let mut rows = vec![
        case("HTTP/1.0 gets a response and is closed", "RFC 9112, 9.3")
            .sends("GET / HTTP/1.0\r\nHost: a\r\n\r\n")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().without("connection: keep-alive"))
            .then_closes(),
        case("HTTP/1.0 with keep-alive stays open", "RFC 9112, C.2.2")
            .sends("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().with("connection: keep-alive")),
        case("HTTP/1.0 without Host is forwarded with the local address", "RFC 9112, 3.3")
            .sends("GET / HTTP/1.0\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: {proxy}")
            .then_closes(),
        case("a response to HTTP/1.0 has no chunks", "RFC 9112, 6.1")
            .sends("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
            .app_responds("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().without("transfer-encoding: ").without("content-length: "))
            .then_closes(),
        case("HTTP/0.9 is rejected", "RFC 9112, A; not in use").sends("GET /\r\n").is_rejected_by_parser(400),
    ];
    let versions = [
        ("a lower minor version than 1.0 is rejected", "HTTP/0.9"),
        ("a higher minor version is rejected", "HTTP/1.2"),
        ("two digits of minor version are rejected", "HTTP/1.10"),
        ("two digits of major version are rejected", "HTTP/01.1"),
        ("an upgrade to another name of HTTP/2 is ignored", "HTTP/2.0"),
        ("an upgrade to HTTP/3 is ignored", "HTTP/3"),
        ("the name of the protocol is case-insensitive", "http/1.1"),
        ("another protocol is rejected", "ICAP/1.0"),
        ("a version that ends in a space is rejected", "HTTP/1.1 "),
        ("a version with a letter is rejected", "HTTP/1.x"),
        ("a version without a dot is rejected", "HTTP/11"),
    ];
    rows.extend(versions.map(|(name, version)| {
        case(name, "RFC 9112, 2.3")
            .sends(format!("GET / {version}\r\nHost: a\r\n\r\n"))
            .is_rejected_by_parser(400)
    }));
    rows
}

fn line_ends() -> Vec<Case> {
    vec![
        case("an empty line before a request is ignored", "RFC 9112, 2.2")
            .sends("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("lines that end in a bare LF are forwarded with CRLF", "RFC 9112, 2.2")
            .sends("GET / HTTP/1.1\nHost: a\n\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("two spaces in a request line are rejected", "RFC 9112, 3")
            .sends("GET  / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("two spaces before the version are rejected", "RFC 9112, 3")
            .sends("GET /  HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a tab does not separate parts of a request line", "RFC 9112, 3")
            .sends("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected_by_parser(400),
        case("TLS on a port of plain HTTP is rejected", "a Service port with a wrong name")
            .sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            .is_rejected_by_parser(400),
        case("half of the HTTP/2 preface is rejected", "RFC 9113, 3.4")
            .sends("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
            .is_rejected_by_parser(400),
        case("a request that arrives byte by byte is served", "RFC 9112, 2.2")
            .sends("G")
            .sends("ET / HT")
            .sends("TP/1.1\r")
            .sends("\nHo")
            .sends("st: a\r\n\r")
            .sends("\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("the app's reason phrase is forwarded", "RFC 9112, 4")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds("HTTP/1.1 299 Quite fine\r\ncontent-length: 0\r\n\r\n")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(response(299).start("HTTP/1.1 299 Quite fine")),
    ]
}
