//! Responses of apps, valid and invalid.

use crate::case::AppAction::{Closes, Pauses, Reads, Resets, Sends};
use crate::case::{Case, ClientStep, ExpectedResponse, case, ok, problem, response};

/// The rows.
pub fn rows() -> Vec<Case> {
    [
        framings(),
        bad_framings(),
        malformed(),
        without_body(),
        informational(),
        trailers(),
        sizes(),
        read_error(),
    ]
    .concat()
}

/// A GET with the app's response and the expected result.
fn row(name: &'static str, source: &'static str, response: impl AsRef<[u8]>, gets: ExpectedResponse) -> Case {
    case(name, source)
        .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .app_responds(response)
        .app_receives("GET / HTTP/1.1\nhost: a")
        .gets(gets)
}

/// As above, but the app closes the connection afterwards.
fn row_and_close(
    name: &'static str,
    source: &'static str,
    response: impl AsRef<[u8]>,
    gets: ExpectedResponse,
) -> Case {
    row(name, source, response, gets).app([Closes])
}

fn framings() -> Vec<Case> {
    let head = "HTTP/1.1 200 OK\r\n";
    vec![
        row(
            "a length is preserved",
            "RFC 9112, 6.3",
            format!("{head}content-length: 2\r\n\r\nok"),
            ok().with("content-length: 2").start("HTTP/1.1 200 OK"),
        ),
        row(
            "a chunked response stays chunked",
            "RFC 9112, 6.3",
            format!("{head}transfer-encoding: chunked\r\n\r\n2;x\r\nok\r\n0\r\n\r\n"),
            ok().with("transfer-encoding: chunked").without("content-length: "),
        ),
        row_and_close(
            "a body that ends with the connection becomes chunked",
            "RFC 9112, 6.3",
            format!("{head}\r\nok"),
            ok().with("transfer-encoding: chunked"),
        ),
        row_and_close(
            "an HTTP/1.0 response of the app becomes HTTP/1.1",
            "RFC 9110, 2.5",
            "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
            ok().start("HTTP/1.1 200 OK"),
        ),
        row_and_close(
            "HTTP/1.0 until the close becomes chunks",
            "RFC 9112, 6.3",
            "HTTP/1.0 200 OK\r\n\r\nok",
            ok().start("HTTP/1.1 200 OK").with("transfer-encoding: chunked"),
        ),
        row(
            "equal duplicate lengths are merged",
            "RFC 9112, 6.3",
            format!("{head}content-length: 2\r\ncontent-length: 2\r\n\r\nok"),
            ok().with("content-length: 2"),
        ),
        row(
            "a list of equal lengths is merged",
            "RFC 9112, 6.3",
            format!("{head}content-length: 2, 2\r\n\r\nok"),
            ok().with("content-length: 2"),
        ),
        row(
            "lines that end in a bare LF are accepted",
            "RFC 9112, 2.2",
            "HTTP/1.1 200 OK\nx: y\ncontent-length: 2\n\nok",
            ok().with("x: y"),
        ),
        row(
            "a response without a reason is accepted",
            "RFC 9112, 4",
            "HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok",
            ok(),
        ),
        row(
            "an unknown status is forwarded",
            "RFC 9110, 15",
            "HTTP/1.1 799 Odd\r\ncontent-length: 2\r\n\r\nok",
            response(799).body("ok").start("HTTP/1.1 799 Odd"),
        ),
        row(
            "the app's 5xx is forwarded",
            "RFC 9110, 15.6",
            "HTTP/1.1 503 No\r\ncontent-length: 2\r\nretry-after: 9\r\n\r\nno",
            response(503).body("no").with("retry-after: 9"),
        ),
        row(
            "several Set-Cookie lines stay separate",
            "RFC 6265, 3",
            format!("{head}set-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 2\r\n\r\nok"),
            ok().with("set-cookie: a=1").with("set-cookie: b=2"),
        ),
        row(
            "bytes beyond ASCII are forwarded in values",
            "RFC 9110, 5.5",
            [head.as_bytes(), b"x: caf\xe9\r\ncontent-length: 2\r\n\r\nok"].concat(),
            ok().with("x: caf\u{e9}"),
        ),
        row(
            "the app's Date is forwarded",
            "RFC 9110, 6.6.1",
            format!("{head}date: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-length: 2\r\n\r\nok"),
            ok().with("date: Thu, 01 Jan 1970 00:00:00 GMT"),
        ),
    ]
}

/// Ambiguous responses are not forwarded (RFC 9112, 6.3), and the app's connection is not reused.
fn bad_framings() -> Vec<Case> {
    let responses = [
        (
            "a length and a coding are rejected",
            "content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        (
            "a coding and a length are rejected",
            "transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        ("two lengths that differ are rejected", "content-length: 2\r\ncontent-length: 3\r\n\r\nok"),
        ("a list of lengths that differ is rejected", "content-length: 2, 3\r\n\r\nok"),
        ("a negative length is rejected", "content-length: -2\r\n\r\nok"),
        ("a length of letters is rejected", "content-length: two\r\n\r\nok"),
        ("a length beyond 64 bits is rejected", "content-length: 18446744073709551618\r\n\r\nok"),
        ("an unsupported coding is rejected", "transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        ("a coding without chunks is rejected", "transfer-encoding: gzip\r\n\r\nok"),
        ("coding identity is rejected", "transfer-encoding: identity\r\ncontent-length: 2\r\n\r\nok"),
        ("chunked twice is rejected", "transfer-encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        (
            "chunked in two lines is rejected",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
    ];
    let mut rows = responses
        .map(|(name, rest)| {
            row_and_close(name, "RFC 9112, 6.3", format!("HTTP/1.1 200 OK\r\n{rest}"), problem(502))
        })
        .to_vec();
    rows.push(row_and_close(
        "a coding in HTTP/1.0 is rejected",
        "RFC 9112, 6.1",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        problem(502),
    ));
    rows
}

fn malformed() -> Vec<Case> {
    let responses: [(&str, &[u8]); 20] = [
        ("a response that is not HTTP is rejected", b"hello\r\n\r\n"),
        ("SSH on the app's port is rejected", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("an empty line is not a response", b"\r\n\r\n"),
        ("a status of two digits is rejected", b"HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a status of four digits is rejected", b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a status below 100 is rejected", b"HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a status of letters is rejected", b"HTTP/1.1 2xx OK\r\ncontent-length: 0\r\n\r\n"),
        ("no status is rejected", b"HTTP/1.1\r\ncontent-length: 0\r\n\r\n"),
        ("another version is rejected", b"HTTP/2 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("another protocol is rejected", b"ICY 200 OK\r\n\r\n"),
        ("a control byte in the reason is rejected", b"HTTP/1.1 200 O\x01K\r\ncontent-length: 0\r\n\r\n"),
        ("a space before the colon is rejected", b"HTTP/1.1 200 OK\r\nx : y\r\ncontent-length: 0\r\n\r\n"),
        ("a folded value is rejected", b"HTTP/1.1 200 OK\r\nx: y\r\n z\r\ncontent-length: 0\r\n\r\n"),
        ("a bare CR in a value is rejected", b"HTTP/1.1 200 OK\r\nx: y\rz\r\ncontent-length: 0\r\n\r\n"),
        ("a NUL in a value is rejected", b"HTTP/1.1 200 OK\r\nx: y\0z\r\ncontent-length: 0\r\n\r\n"),
        ("an empty name is rejected", b"HTTP/1.1 200 OK\r\n: y\r\ncontent-length: 0\r\n\r\n"),
        ("a space in a name is rejected", b"HTTP/1.1 200 OK\r\nx y: z\r\ncontent-length: 0\r\n\r\n"),
        ("a line without a colon is rejected", b"HTTP/1.1 200 OK\r\nx\r\ncontent-length: 0\r\n\r\n"),
        ("HTTP/2 frames of an app in response to HTTP/1.1 are rejected", b"\0\0\0\x04\0\0\0\0\0"),
        ("half a head is rejected", b"HTTP/1.1 200 OK\r\ncontent-le"),
    ];
    responses.map(|(name, response)| row_and_close(name, "RFC 9110, 15.6.3", response, problem(502))).to_vec()
}

fn without_body() -> Vec<Case> {
    let head = |name, response: &str| {
        case(name, "RFC 9110, 9.3.2")
            .sends("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds(response)
            .app_receives("HEAD / HTTP/1.1\nhost: a")
    };
    vec![
        head(
            "the length in a response to HEAD is forwarded",
            "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n",
        )
        .gets(response(200).to_head().with("content-length: 5000")),
        head(
            "HEAD of a chunked resource has no body",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .gets(response(200).to_head()),
        head("HEAD without any framing has no body", "HTTP/1.1 200 OK\r\nx: y\r\n\r\n")
            .gets(response(200).to_head().with("x: y")),
        head("a body that an app sends to HEAD is dropped", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .gets(response(200).to_head().with("content-length: 2")),
        row("204 has no body", "RFC 9110, 15.3.5", "HTTP/1.1 204 No Content\r\n\r\n", response(204)),
        row(
            "a length of 204 is removed",
            "RFC 9110, 8.6",
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            response(204).without("content-length: "),
        ),
        row(
            "a body that an app sends with 204 is dropped",
            "RFC 9112, 6.3",
            "HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok",
            response(204).without("content-length: "),
        ),
        row(
            "chunks that an app sends with 204 are dropped",
            "RFC 9112, 6.1",
            "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            response(204).without("transfer-encoding: "),
        ),
        row(
            "304 has no body, whatever its length is",
            "RFC 9110, 15.4.5",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 5000\r\netag: \"x\"\r\n\r\n",
            response(304).with("etag: \"x\""),
        ),
        row(
            "a body that an app sends with 304 is dropped",
            "RFC 9112, 6.3",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\nok",
            response(304),
        ),
        row(
            "an empty body stays empty",
            "RFC 9110, 8.6",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            response(200).body("").with("content-length: 0"),
        ),
    ]
}

fn informational() -> Vec<Case> {
    let ok_bytes = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    vec![
        row(
            "a 100 Continue without expectation is dropped",
            "RFC 9110, 15.2.1",
            format!("HTTP/1.1 100 Continue\r\n\r\n{ok_bytes}"),
            ok(),
        ),
        row(
            "early hints are dropped",
            "RFC 8297, 3 (RFC 9110, 15.2 forwards them)",
            format!("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n{ok_bytes}"),
            ok().without("link: "),
        ),
        row(
            "many 100 Continues are dropped",
            "RFC 9110, 15.2",
            format!("{}{ok_bytes}", "HTTP/1.1 102 Processing\r\n\r\n".repeat(50)),
            ok(),
        ),
        row_and_close(
            "hints without a final response are an error",
            "RFC 9110, 15.2",
            "HTTP/1.1 103 Early Hints\r\n\r\n",
            problem(502),
        ),
        row_and_close(
            "a 101 without an upgrade request is rejected",
            "RFC 9110, 15.2.2",
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            problem(502),
        ),
    ]
}

fn trailers() -> Vec<Case> {
    let response = "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n";
    let undeclared = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    let with_te_trailers = |name, source, response: &str| {
        case(name, source)
            .sends("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n")
            .app_responds(response)
            .app_receives("GET / HTTP/1.1\nhost: a\nte: trailers")
    };
    vec![
        with_te_trailers("trailers are forwarded to a client with TE: trailers", "RFC 9110, 6.5", response)
            .gets(ok().trailer("x-sum: 1")),
        with_te_trailers("trailers that were not announced are dropped", "RFC 9110, 6.5.1", undeclared)
            .gets(ok()),
        row("trailers are dropped for a client without TE: trailers", "RFC 9110, 6.5.1", response, ok()),
        row(
            "a hundred trailers end a response",
            "RFC 9112, 7.1.2",
            format!("{chunked}{}\r\n", many(100)),
            ok(),
        ),
        row_and_close(
            "more than a hundred trailers cut a response",
            "RFC 9112, 7.1.2",
            format!("{chunked}{}\r\n", many(101)),
            ok().cut(),
        )
        .then_closes(),
    ]
}

/// Lines of so many fields.
fn many(count: usize) -> String {
    (0..count).map(|n| format!("x-{n:03}: {n}\r\n")).collect()
}

fn sizes() -> Vec<Case> {
    let long = |length: usize| {
        format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 2\r\n\r\nok", "v".repeat(length))
    };
    vec![
        row(
            "250 headers are forwarded",
            "RFC 9110, 5.4",
            format!("HTTP/1.1 200 OK\r\n{}content-length: 2\r\n\r\nok", many(249)),
            ok().with("x-248: 248"),
        ),
        row_and_close(
            "more than 256 headers are rejected",
            "RFC 9110, 5.4",
            format!("HTTP/1.1 200 OK\r\n{}content-length: 2\r\n\r\nok", many(256)),
            problem(502),
        ),
        row("a header of 60 KiB is forwarded", "RFC 9110, 5.4", long(60 * 1024), ok()),
        row_and_close("a header of a megabyte is rejected", "RFC 9110, 5.4", long(1 << 20), problem(502)),
    ]
}

/// A cut response must be visibly incomplete to the client (RFC 9112, 8).
fn read_error() -> Vec<Case> {
    let get = |name, source| {
        case(name, source).sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n").app_receives("GET / HTTP/1.1\nhost: a")
    };
    // An idempotent request is sent again if there is another pod.
    let post = |name, source| {
        case(name, source)
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .app_receives("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
    };
    let sized = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello".to_vec();
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec();
    let bad_chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n".to_vec();
    let long_chunk =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n".to_vec();
    let cut = || response(200).body("hello").cut();
    vec![
        post("an app that closes without a response causes 502", "RFC 9110, 9.2.2")
            .app([Reads, Closes])
            .gets(problem(502)),
        post("an app that resets the connection causes 502", "knative/serving#9888")
            .app([Reads, Resets])
            .gets(problem(502)),
        get("an app that closes within a response head causes 502", "RFC 9112, 8")
            .app([Reads, Sends(b"HTTP/1.1 200 OK\r\nx".to_vec()), Closes])
            .gets(problem(502)),
        get("a sized body that is cut is cut for the client", "KubeElasti#163")
            .app([Reads, Sends(sized.clone()), Closes])
            .gets(cut())
            .then_closes(),
        get("a chunked body that is cut is cut for the client", "RFC 9112, 8")
            .app([Reads, Sends(chunked.clone()), Closes])
            .gets(cut())
            .then_closes(),
        case("a chunked body that is cut is cut for a client of HTTP/1.0", "RFC 9112, 8")
            .sends("GET / HTTP/1.0\r\nHost: a\r\n\r\n")
            .app_receives("GET / HTTP/1.1\nhost: a")
            .app([Reads, Sends(chunked.clone()), Closes])
            .gets(cut())
            .step(ClientStep::IsReset)
            .then_not_http(),
        get("a body until the close that is reset is cut", "RFC 9112, 8")
            .app([Reads, Sends(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()), Pauses, Resets])
            .gets(cut())
            .then_closes(),
        get("a bad chunk cuts the body", "RFC 9112, 7.1")
            .app([Reads, Sends(bad_chunk), Closes])
            .gets(cut())
            .then_closes(),
        get("a chunk longer than its size cuts the body", "RFC 9112, 7.1")
            .app([Reads, Sends(long_chunk), Closes])
            .gets(cut())
            .then_closes(),
    ]
}
