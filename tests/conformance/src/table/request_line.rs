//! Methods, request targets and versions.

use crate::case::{Case, answer, case, ok};

/// The rows.
pub fn rows() -> Vec<Case> {
    [methods(), targets(), forms_of_target(), versions(), line_ends()].concat()
}

fn methods() -> Vec<Case> {
    vec![
        case("an ordinary request passes", "RFC 9110, 9.3.1")
            .sends("GET /a/b?c=d HTTP/1.1\r\nHost: web.example\r\n\r\n")
            .passes("GET /a/b?c=d HTTP/1.1\nhost: web.example"),
        case("a method that nobody knows passes", "RFC 9110, 9.1")
            .sends("BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("BREW /pot HTTP/1.1\nhost: a"),
        case("a method of all characters of a token passes", "RFC 9110, 5.6.2")
            .sends("M!#$%&'*+-.^_`|~9 / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("M!#$%&'*+-.^_`|~9 / HTTP/1.1\nhost: a"),
        case("methods keep their case", "RFC 9110, 9.1")
            .sends("get / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("get / HTTP/1.1\nhost: a"),
        case("OPTIONS of a resource passes", "RFC 9110, 9.3.7")
            .sends("OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("OPTIONS /a HTTP/1.1\nhost: a"),
        case(
            "TRACE passes, and Max-Forwards is the app's business",
            "RFC 9110, 9.3.8 (7.6.2: gateways need not count)",
        )
        .sends("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
        .passes("TRACE / HTTP/1.1\nhost: a\nmax-forwards: 0"),
        case("PUT without a body stays without", "RFC 9112, 6.3")
            .sends("PUT / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("PUT / HTTP/1.1\nhost: a"),
        case("CONNECT is no business of a gateway", "RFC 9110, 9.3.6")
            .sends("CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\n")
            .is_refused(501),
        case("CONNECT of a path is none either", "RFC 9110, 9.3.6")
            .sends("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused(501),
        case("a method with a separator is malformed", "RFC 9110, 5.6.2")
            .sends("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a method with a NUL is malformed", "RFC 9110, 5.6.2")
            .sends("G\0T / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a method beyond ASCII is malformed", "RFC 9110, 5.6.2")
            .sends(b"G\xc3\x89T / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a request without a method is malformed", "RFC 9112, 3")
            .sends(" / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
    ]
}

fn targets() -> Vec<Case> {
    vec![
        case("a path is not tidied up", "RFC 9112, 3.2.1")
            .sends("GET //a//b/../c/./%2e%2E/%2F;d=1?e=/../ HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET //a//b/../c/./%2e%2E/%2F;d=1?e=/../ HTTP/1.1\nhost: a"),
        case("a percent sign that encodes nothing stays", "RFC 3986, 2.1; apps differ on it")
            .sends("GET /100%zz% HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /100%zz% HTTP/1.1\nhost: a"),
        case("an empty query stays a query", "RFC 3986, 3.4")
            .sends("GET /a? HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /a? HTTP/1.1\nhost: a"),
        case("what browsers leave unencoded in a query passes", "RFC 3986, 3.4, and what is sent")
            .sends("GET /?a={b}|c^[d]~`\\e HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /?a={b}|c^[d]~`\\e HTTP/1.1\nhost: a"),
        case(
            "quotes in a query are refused, as their encoding is asked for",
            "RFC 3986, 3.4; nginx lets them pass",
        )
        .sends("GET /?a=\"b\" HTTP/1.1\r\nHost: a\r\n\r\n")
        .is_refused_by_the_parser(400),
        case("a fragment, which should not be sent, is dropped", "RFC 9112, 3.2.1")
            .sends("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /a HTTP/1.1\nhost: a"),
        case("bytes beyond ASCII in a path pass as they are", "RFC 3986, 2; nginx and Envoy do so")
            .sends("GET /caf\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /caf\u{c3}\u{a9} HTTP/1.1\nhost: a"),
        case("bytes in a path that are no UTF-8 are refused", "RFC 3986, 2")
            .sends(b"GET /caf\xe9 HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("8,000 bytes of path pass", "RFC 9112, 3")
            .sends(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(8000)))
            .passes(format!("GET /{} HTTP/1.1\nhost: a", "p".repeat(8000))),
        case("a target above the bound of the head is refused", "RFC 9110, 15.5.15; 431 is as good as 414")
            .sends(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "p".repeat(70_000)))
            .is_refused_by_the_parser(431),
        case("a NUL in a path is refused", "RFC 9112, 3.2")
            .sends("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a control byte in a path is refused", "RFC 9112, 3.2")
            .sends("GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("DEL in a path is refused", "RFC 9112, 3.2")
            .sends("GET /a\x7fb HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a space in a path is refused", "RFC 9112, 3")
            .sends("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a tab in a path is refused", "RFC 9112, 3")
            .sends("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a CR in a path is refused", "RFC 9112, 2.2")
            .sends("GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a request without a target is malformed", "RFC 9112, 3")
            .sends("GET HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
    ]
}

fn forms_of_target() -> Vec<Case> {
    vec![
        case("the authority of an absolute target replaces Host", "RFC 9112, 3.2.2")
            .sends("GET http://b.example:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET /x?y HTTP/1.1\nhost: b.example:81"),
        case("an absolute target without a path means /", "RFC 9112, 3.2.2")
            .sends("GET http://b HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: b"),
        case("an absolute target of https is one of ours", "RFC 9110, 7.4: TLS may end before us")
            .sends("GET https://b/x HTTP/1.1\r\nHost: b\r\n\r\n")
            .passes("GET /x HTTP/1.1\nhost: b"),
        case("an absolute target needs a Host all the same", "RFC 9112, 3.2")
            .sends("GET http://b/x HTTP/1.1\r\n\r\n")
            .is_refused(400),
        case("a target with a user in it is refused", "RFC 9110, 4.2.4")
            .sends("GET http://admin@b/x HTTP/1.1\r\nHost: b\r\n\r\n")
            .is_refused(400),
        case("a target of another scheme is refused", "RFC 9110, 7.4")
            .sends("GET ftp://b/x HTTP/1.1\r\nHost: b\r\n\r\n")
            .is_refused(400),
        case("OPTIONS of the whole server passes", "RFC 9112, 3.2.4")
            .sends("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("OPTIONS * HTTP/1.1\nhost: a"),
        case("only OPTIONS may ask for *", "RFC 9112, 3.2.4")
            .sends("GET * HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused(400),
        case("only CONNECT may name an authority", "RFC 9112, 3.2.3")
            .sends("GET b:80 HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused(400),
        case("a relative target is refused", "RFC 9112, 3.2")
            .sends("GET a/b HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
    ]
}

fn versions() -> Vec<Case> {
    let mut rows = vec![
        case("HTTP/1.0 is answered and closed", "RFC 9112, 9.3")
            .sends("GET / HTTP/1.0\r\nHost: a\r\n\r\n")
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(ok().without("connection: keep-alive"))
            .then_closes(),
        case("HTTP/1.0 with keep-alive stays open", "RFC 9112, C.2.2")
            .sends("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(ok().with("connection: keep-alive")),
        case("HTTP/1.0 without Host: the app gets the address that was asked", "RFC 9112, 3.3")
            .sends("GET / HTTP/1.0\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: {proxy}")
            .then_closes(),
        case("HTTP/1.0 callers get no chunks", "RFC 9112, 6.1")
            .sends("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
            .app_answers("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(ok().without("transfer-encoding: ").without("content-length: "))
            .then_closes(),
        case("HTTP/0.9 is refused", "RFC 9112, A; nobody speaks it")
            .sends("GET /\r\n")
            .is_refused_by_the_parser(400),
    ];
    let versions = [
        ("a lower minor version than 1.0 is refused", "HTTP/0.9"),
        ("a higher minor version is refused", "HTTP/1.2"),
        ("two digits of minor version are refused", "HTTP/1.10"),
        ("two digits of major version are refused", "HTTP/01.1"),
        ("HTTP/2 is not asked for like this", "HTTP/2.0"),
        ("HTTP/3 neither", "HTTP/3"),
        ("the protocol's name has upper case", "http/1.1"),
        ("another protocol is refused", "ICAP/1.0"),
        ("a version that ends in a space is refused", "HTTP/1.1 "),
        ("a version with a letter is refused", "HTTP/1.x"),
        ("a version without a dot is refused", "HTTP/11"),
    ];
    rows.extend(versions.map(|(name, version)| {
        case(name, "RFC 9112, 2.3")
            .sends(format!("GET / {version}\r\nHost: a\r\n\r\n"))
            .is_refused_by_the_parser(400)
    }));
    rows
}

fn line_ends() -> Vec<Case> {
    vec![
        case("an empty line before a request is overlooked", "RFC 9112, 2.2")
            .sends("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("lines may end in a bare LF, and reach the app with CRLF", "RFC 9112, 2.2")
            .sends("GET / HTTP/1.1\nHost: a\n\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("two spaces in a request line are refused", "RFC 9112, 3")
            .sends("GET  / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("two spaces before the version are refused", "RFC 9112, 3")
            .sends("GET /  HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a tab in a request line is no space", "RFC 9112, 3")
            .sends("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("TLS on a port of plain HTTP is refused", "what a wrong port name brings")
            .sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            .is_refused_by_the_parser(400),
        case("half of the HTTP/2 preface is no request", "RFC 9113, 3.4")
            .sends("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
            .is_refused_by_the_parser(400),
        case("a request that comes byte by byte is one", "RFC 9112, 2.2")
            .sends("G")
            .sends("ET / HT")
            .sends("TP/1.1\r")
            .sends("\nHo")
            .sends("st: a\r\n\r")
            .sends("\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("the reason phrase is the app's", "RFC 9112, 4")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_answers("HTTP/1.1 299 Quite fine\r\ncontent-length: 0\r\n\r\n")
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(answer(299).start("HTTP/1.1 299 Quite fine")),
    ]
}
