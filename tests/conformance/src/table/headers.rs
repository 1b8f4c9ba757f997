//! Syntax and size of headers, and Host.

use crate::case::{Case, case, problem};

/// The rows.
pub fn rows() -> Vec<Case> {
    [host(), good_hosts(), bad_hosts(), values(), malformed(), sizes()].concat()
}

fn host() -> Vec<Case> {
    vec![
        case("HTTP/1.1 needs a Host", "RFC 9112, 3.2").sends("GET / HTTP/1.1\r\n\r\n").is_rejected(400),
        case("two different Hosts are rejected", "RFC 9112, 3.2")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            .is_rejected(400),
        case("a duplicate Host is rejected", "RFC 9112, 3.2")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n")
            .is_rejected(400),
        case("two Hosts are rejected in HTTP/1.0", "RFC 9112, 3.2")
            .sends("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n")
            .is_rejected(400),
        case("a rejected request's body is not parsed as the next request", "RFC 9112, 9.3")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 31\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected(400),
        case("bytes after a rejected request are not served", "RFC 9112, 9.3")
            .sends("GET / HTTP/1.1\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_rejected(400),
        case("a rejection of HEAD has no body", "RFC 9110, 9.3.2")
            .sends("HEAD / HTTP/1.1\r\n\r\n")
            .gets(crate::case::response(400).to_head().with("content-type: application/problem+json"))
            .then_closes(),
        case("a rejection has Connection: close", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\n\r\n")
            .gets(problem(400).with("connection: close"))
            .then_closes(),
    ]
}

fn good_hosts() -> Vec<Case> {
    let hosts = [
        ("a host with a port is forwarded", "web.example:8080"),
        ("an address is forwarded", "10.0.0.1:80"),
        ("an IPv6 address is forwarded", "[2001:db8::1]:80"),
        ("an underscore in a host is forwarded", "my_app.default"),
        ("upper case in a host is preserved", "Web.Example"),
        ("an absolute name is forwarded", "web.example."),
        ("a percent-encoded host is forwarded", "w%65b"),
        ("an empty port is forwarded", "web.example:"),
    ];
    let mut rows = hosts
        .map(|(name, host)| {
            case(name, "RFC 9110, 7.2")
                .sends(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"))
                .passes(format!("GET / HTTP/1.1\nhost: {host}"))
        })
        .to_vec();
    rows.push(
        case("an empty Host is forwarded", "RFC 9112, 3.2")
            .sends("GET / HTTP/1.1\r\nHost:\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: "),
    );
    rows
}

fn bad_hosts() -> Vec<Case> {
    let hosts = [
        ("a space in a Host is rejected", "a b"),
        ("a path in a Host is rejected", "a/b"),
        ("a user in a Host is rejected", "admin@a"),
        ("a query in a Host is rejected", "a?b"),
        ("a fragment in a Host is rejected", "a#b"),
        ("a scheme in a Host is rejected", "http://a"),
        ("a list of hosts is rejected", "a, b"),
        ("a port of letters is rejected", "a:b"),
        ("a port beyond 65535 is rejected", "a:65536"),
        ("two ports are rejected", "a:1:2"),
        ("an IPv6 address without its bracket is rejected", "[::1"),
        ("an IPv6 address without brackets is rejected", "::1"),
        ("a backslash in a Host is rejected", "a\\b"),
        ("quotes around a Host are rejected", "\"a\""),
        ("a host beyond ASCII is rejected", "caf\u{e9}"),
        ("a port without a host is rejected", ":80"),
    ];
    let row =
        |(name, host)| case(name, "RFC 9110, 7.2").sends(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    hosts.map(row).map(|case| case.is_rejected(400)).to_vec()
}

fn values() -> Vec<Case> {
    vec![
        case("white space around a value is removed", "RFC 9112, 5.1")
            .sends("GET / HTTP/1.1\r\nHost:\t a \t\r\nX:b  \r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\nx: b"),
        case("white space within a value is forwarded", "RFC 9110, 5.5")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX: b \t c\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\nx: b \t c"),
        case("an empty value is forwarded", "RFC 9110, 5.5")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\nx: "),
        case("bytes beyond ASCII are forwarded in values", "RFC 9110, 5.5 (obs-text)")
            .sends(b"GET / HTTP/1.1\r\nHost: a\r\nX: caf\xe9\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\nx: caf\u{e9}"),
        case("values of one name keep their order", "RFC 9110, 5.3")
            .sends("GET / HTTP/1.1\r\nX: 2\r\nHost: a\r\nx: 1\r\nX: 3\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\nx: 2\nx: 1\nx: 3"),
        case("several Cookie lines stay separate", "RFC 6265, 5.4; apps differ on joining them")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n")
            .passes("GET / HTTP/1.1\ncookie: a=1\ncookie: b=2\nhost: a"),
        case("a name of all characters of a token is forwarded", "RFC 9110, 5.6.2")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nx_y!#$%&'*+.^`|~: 1\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a\nx_y!#$%&'*+.^`|~: 1"),
        case("Authorization is forwarded", "RFC 9110, 11.6.2")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\n\r\n")
            .passes("GET / HTTP/1.1\nauthorization: Basic YTpi\nhost: a"),
    ]
}

fn malformed() -> Vec<Case> {
    let heads: [(&str, &str, &[u8]); 16] = [
        ("a space before the colon is rejected", "RFC 9112, 5.1", b"Host: a\r\nX : b"),
        ("a tab before the colon is rejected", "RFC 9112, 5.1", b"Host: a\r\nX\t: b"),
        ("a folded value is rejected", "RFC 9112, 5.2", b"Host: a\r\nX: b\r\n c"),
        ("a value folded by a tab is rejected", "RFC 9112, 5.2", b"Host: a\r\nX: b\r\n\tc"),
        ("a space before the first header is rejected", "RFC 9112, 2.2", b" X: b\r\nHost: a"),
        ("a bare CR in a value is rejected", "RFC 9112, 2.2", b"Host: a\r\nX: b\rc"),
        ("a bare CR between headers is rejected", "RFC 9112, 2.2", b"Host: a\rX: b"),
        ("a NUL in a value is rejected", "RFC 9110, 5.5", b"Host: a\r\nX: b\0c"),
        ("a control byte in a value is rejected", "RFC 9110, 5.5", b"Host: a\r\nX: b\x01c"),
        ("DEL in a value is rejected", "RFC 9110, 5.5", b"Host: a\r\nX: b\x7fc"),
        ("an empty name is rejected", "RFC 9110, 5.1", b"Host: a\r\n: b"),
        ("a space in a name is rejected", "RFC 9110, 5.1", b"Host: a\r\nX Y: b"),
        ("a separator in a name is rejected", "RFC 9110, 5.1", b"Host: a\r\nX(Y): b"),
        ("a name beyond ASCII is rejected", "RFC 9110, 5.1", b"Host: a\r\nX\xe9: b"),
        ("a NUL in a name is rejected", "RFC 9110, 5.1", b"Host: a\r\nX\0: b"),
        ("a line without a colon is rejected", "RFC 9112, 5", b"Host: a\r\nX"),
    ];
    let row = |(name, source, lines): (_, _, &[u8])| {
        case(name, source)
            .sends([b"GET / HTTP/1.1\r\n", lines, b"\r\n\r\n"].concat())
            .is_rejected_by_parser(400)
    };
    heads.map(row).to_vec()
}

fn sizes() -> Vec<Case> {
    let many = |count| (1..count).map(|n| format!("x-{n:03}: {n}\r\n")).collect::<String>();
    let long = |length| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "v".repeat(length));
    let cookies = "Cookie: 0123456789abcdef0123456789abcdef\r\n".repeat(90);
    vec![
        case("a hundred headers are forwarded", "RFC 9110, 5.4")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(100)))
            .passes(format!("GET / HTTP/1.1\nhost: a\n{}", many(100).replace("\r\n", "\n").trim_end())),
        case("more than a hundred headers are rejected", "RFC 6585, 5")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(101)))
            .is_rejected_by_parser(431),
        case("60 KiB of one header are forwarded", "RFC 9110, 5.4")
            .sends(long(60 * 1024))
            .passes(format!("GET / HTTP/1.1\nhost: a\nx: {}", "v".repeat(60 * 1024))),
        // Up to twice the bound a read may complete the head before its length is checked.
        case("a head beyond 128 KiB is rejected", "RFC 6585, 5")
            .sends(long(128 * 1024))
            .is_rejected_by_parser(431),
        case("a head far beyond 128 KiB is rejected", "RFC 6585, 5")
            .sends(long(200_000))
            .is_rejected_by_parser(431),
        case("a head beyond 64 KiB is rejected before it ends", "RFC 6585, 5")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "v".repeat(70_000)))
            .is_rejected_by_parser(431),
        case("many cookies of some size are forwarded", "RFC 9110, 5.4")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{cookies}\r\n"))
            .passes(format!("GET / HTTP/1.1\n{}host: a", cookies.to_lowercase().replace("\r\n", "\n"))),
    ]
}
