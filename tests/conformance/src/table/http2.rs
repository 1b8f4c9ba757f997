//! HTTP/2 with prior knowledge: valid requests, invalid ones, and floods.

pub mod grpc;
mod interim;
mod resets;
mod retries;
pub mod shared_connections;

use crate::case::{observed, ok, problem, response};
use crate::http2::Http2Action::{Closes, Reads, ReadsHead, Sends, Stalls};
use crate::http2::code::*;
use crate::http2::{
    Field, Frame, Http2Case, Http2Step, block, case, continuation, data, frame, get, goaway, headers,
    request, reset, setting, window_update,
};

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];

/// The rows.
pub fn rows() -> Vec<Http2Case> {
    [
        passes(),
        grpc(),
        authority(),
        malformed(),
        lengths(),
        frames(),
        streams(),
        floods(),
        app(),
        interim::rows(),
        resets::rows(),
        retries::rows(),
        grpc::rows(),
        grpc::reset_rows(),
        shared_connections::cancelled_rows(),
        shared_connections::response_rows(),
    ]
    .concat()
}

fn passes() -> Vec<Http2Case> {
    let long = "b".repeat(300_000);
    vec![
        case("an ordinary request is forwarded", "RFC 9113, 8.3.1")
            .sends([get(1, "/a/b?c=d")])
            .app_receives("GET /a/b?c=d HTTP/2\n:authority: a")
            .gets(1, ok().without("connection: ").without("transfer-encoding: ")),
        case("a body is forwarded", "RFC 9113, 8.1")
            .sends([
                request(1, "POST", "/", &[("content-length", "5")]),
                data(1, "he"),
                data(1, "llo").ending(),
            ])
            .app_receives("POST / HTTP/2\n:authority: a\ncontent-length: 5\n\nhello")
            .gets(1, ok()),
        case("a body without a length is forwarded", "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[]), data(1, "hello"), data(1, "").ending()])
            .app_receives("POST / HTTP/2\n:authority: a\n\nhello")
            .gets(1, ok()),
        case("a body of GET is forwarded", "RFC 9110, 9.3.1")
            .sends([request(1, "GET", "/", &[]), data(1, "hello").ending()])
            .app_receives("GET / HTTP/2\n:authority: a\n\nhello")
            .gets(1, ok()),
        case("an unknown method is forwarded", "RFC 9110, 9.1")
            .sends([request(1, "BREW", "/pot", &[]).ending()])
            .app_receives("BREW /pot HTTP/2\n:authority: a")
            .gets(1, ok()),
        case("OPTIONS of the whole server is forwarded", "RFC 9113, 8.3.1")
            .sends([request(1, "OPTIONS", "*", &[]).ending()])
            .app_receives("OPTIONS * HTTP/2\n:authority: a")
            .gets(1, ok()),
        case("concurrent streams are separate requests", "RFC 9113, 5.1.2")
            .sends([request(1, "POST", "/1", &[]), get(3, "/3")])
            .gets(3, ok())
            .sends([get(5, "/5")])
            .gets(5, ok())
            .sends([data(1, "x").ending()])
            .gets(1, ok())
            .app_receives("GET /3 HTTP/2\n:authority: a")
            .app_receives("GET /5 HTTP/2\n:authority: a")
            .app_receives("POST /1 HTTP/2\n:authority: a\n\nx"),
        case("split cookies are accepted", "RFC 9113, 8.2.3")
            .sends([request(1, "GET", "/", &[("cookie", "a=1"), ("cookie", "b=2")]).ending()])
            .app_receives("GET / HTTP/2\n:authority: a\ncookie: a=1\ncookie: b=2")
            .gets(1, ok()),
        case("the trace context is forwarded unchanged", "W3C Trace Context, 2.3 and 3.3")
            .sends([request(
                1,
                "GET",
                "/",
                &[
                    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
                    ("tracestate", "rojo=00f067aa0ba902b7"),
                    ("tracestate", "congo=t61rcWkgMzE,  a@b=x"),
                ],
            )
            .ending()])
            .app_receives(concat!(
                "GET / HTTP/2\n:authority: a\n",
                "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
                "tracestate: rojo=00f067aa0ba902b7\ntracestate: congo=t61rcWkgMzE,  a@b=x",
            ))
            .gets(1, ok()),
        case("bytes beyond ASCII are forwarded in values", "RFC 9110, 5.5")
            .sends([with(&[(b"x", b"caf\xe9")]).ending()])
            .app_receives("GET / HTTP/2\n:authority: a\nx: caf\u{e9}")
            .gets(1, ok()),
        case("a header block in CONTINUATIONs is reassembled", "RFC 9113, 4.3")
            .sends(request(1, "GET", "/", &[("x", "y")]).ending().split(30))
            .app_receives("GET / HTTP/2\n:authority: a\nx: y")
            .gets(1, ok()),
        case("a header of 40 KiB is forwarded", "RFC 9113, 10.5.1")
            .sends(request(1, "GET", "/", &[("x", &"v".repeat(40 * 1024))]).ending().split(16_000))
            .app_receives(format!("GET / HTTP/2\n:authority: a\nx: {}", "v".repeat(40 * 1024)))
            .gets(1, ok()),
        case("frames of unknown types are ignored", "RFC 9113, 5.5")
            .sends([
                frame(0xfa, 0xff, 0, "x"),
                request(1, "POST", "/", &[]),
                frame(0xfa, 0, 1, ""),
                data(1, "").ending(),
            ])
            .app_receives("POST / HTTP/2\n:authority: a")
            .gets(1, ok()),
        case("padding is removed from a body", "RFC 9113, 6.1")
            .sends([request(1, "POST", "/", &[]), frame(0, 0x8 | 0x1, 1, b"\x03hello\0\0\0")])
            .app_receives("POST / HTTP/2\n:authority: a\n\nhello")
            .gets(1, ok()),
        case("a long body is forwarded, with credit for what was read", "RFC 9113, 5.2")
            .sends([get(1, "/1")])
            .app_receives("GET /1 HTTP/2\n:authority: a")
            .gets(1, ok())
            .sends([request(3, "POST", "/", &[])])
            .uploads(3, long)
            .app_receives("POST / HTTP/2\n:authority: a\n\n[300000 x b]")
            .gets(3, ok()),
        case("a client with a small window gets the whole response", "RFC 9113, 5.2")
            .sends([setting(4, 7), get(1, "/")])
            .app_responds([headers(1, &[(":status", "200")]), data(1, "a body longer than seven").ending()])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, response(200).body("a body longer than seven")),
        case("the preface may be followed by a pause", "RFC 9113, 3.4")
            .sends([])
            .sends([get(1, "/")])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, ok()),
    ]
}

fn grpc() -> Vec<Http2Case> {
    let call = |name| {
        case(name, "gRPC over HTTP2: requests and responses")
            .sends([
                request(1, "POST", "/shop.Cart/Add", &[("content-type", "application/grpc"), ("te", "trailers")]),
                data(1, b"\0\0\0\0\x01x").ending(),
            ])
            .app_receives("POST /shop.Cart/Add HTTP/2\n:authority: a\ncontent-type: application/grpc\nte: trailers\n\n\0\0\0\0\u{1}x")
    };
    let status = [(":status", "200"), ("content-type", "application/grpc")];
    vec![
        call("trailers of a response are forwarded")
            .app_responds([
                headers(1, &status),
                data(1, b"\0\0\0\0\x01y"),
                headers(1, &[("grpc-status", "0"), ("grpc-message", "fine")]).ending(),
            ])
            .gets(
                1,
                response(200).body(b"\0\0\0\0\x01y").trailer("grpc-status: 0").trailer("grpc-message: fine"),
            ),
        call("a response of trailers only is forwarded")
            .app_responds([headers(1, &[status[0], status[1], ("grpc-status", "5")]).ending()])
            .gets(1, response(200).with("grpc-status: 5").body("")),
        case("trailers of a request are forwarded", "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[]), data(1, "hello"), headers(1, &[("x-sum", "1")]).ending()])
            .app_receives("POST / HTTP/2\n:authority: a\n\nhello\n\nx-sum: 1")
            .gets(1, ok()),
        case("request and response are streamed at the same time", "gRPC: bidirectional streaming")
            .sends([request(1, "POST", "/", &[])])
            .app([ReadsHead, Sends(vec![headers(1, &[(":status", "200")]), data(1, "first ")])])
            .step(Http2Step::AwaitsApp(1))
            .sends([data(1, "hello")])
            .app([Sends(vec![data(1, "second").ending()])])
            .app_receives("POST / HTTP/2\n:authority: a")
            .gets(1, response(200).body("first second"))
            .sends([data(1, "").ending()]),
    ]
}

fn authority() -> Vec<Http2Case> {
    let without = |more: &[(&str, &str)]| {
        let mut fields = vec![(":method", "GET"), (":scheme", "http"), (":path", "/")];
        fields.extend(more);
        headers(1, &fields).ending()
    };
    let with_authority =
        |authority| headers(1, &[GET[0], GET[1], (":authority", authority), GET[3]]).ending();
    vec![
        case("the client's authority is forwarded", "KEDA http-add-on#331, #764")
            .sends([with_authority("web.example:81")])
            .app_receives("GET / HTTP/2\n:authority: web.example:81")
            .gets(1, ok()),
        case("a Host equal to the authority is dropped", "RFC 9113, 8.3.1")
            .sends([request(1, "GET", "/", &[("host", "a")]).ending()])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, ok()),
        case("a Host alone becomes the authority", "RFC 9113, 8.3.1")
            .sends([without(&[("host", "b")])])
            .app_receives("GET / HTTP/2\n:authority: b")
            .gets(1, ok()),
        case("a Host that differs from the authority is rejected", "RFC 9113, 8.3.1")
            .sends([request(1, "GET", "/", &[("host", "b")]).ending()])
            .gets(1, problem(400)),
        case("two Hosts are rejected", "RFC 9110, 7.2")
            .sends([without(&[("host", "a"), ("host", "b")])])
            .gets(1, problem(400)),
        case("a request without authority and Host is rejected", "RFC 9113, 8.3.1")
            .sends([without(&[])])
            .gets(1, problem(400)),
        case("a user in an authority is rejected", "RFC 9113, 8.3.1")
            .sends([with_authority("admin@a")])
            .gets(1, problem(400)),
        case("CONNECT is rejected", "RFC 9113, 8.5")
            .sends([headers(1, &[(":method", "CONNECT"), (":authority", "db:5432")]).ending()])
            .gets(1, problem(501)),
        case("CONNECT for a websocket is malformed", "RFC 8441, 3: without the setting")
            .sends([headers(
                1,
                &[(":method", "CONNECT"), (":protocol", "websocket"), GET[1], GET[2], (":path", "/chat")],
            )])
            .is_malformed(1),
        case("the client's address and protocol are forwarded", "apps rely on it")
            .sends([request(1, "GET", "/", &[("x-forwarded-for", "10.1.2.3"), ("rouse-proxied", "evil")])
                .ending()])
            .app_receives_request(
                observed("GET / HTTP/2\n:authority: a")
                    .with("x-forwarded-for: 10.1.2.3, 127.0.0.1")
                    .with("x-forwarded-proto: http")
                    .without("rouse-proxied: evil"),
            )
            .gets(1, ok()),
        case("a probe for an unknown component is rejected", "contract: probes")
            .sends([request(1, "GET", "/", &[("rouse-probe", "unknown")]).ending()])
            .gets(1, problem(400)),
    ]
}

/// GET with fields of arbitrary bytes.
fn with(fields: &[Field<'_>]) -> Frame {
    let mut all: Vec<Field<'_>> =
        GET.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    all.extend(fields);
    block(1, &all)
}

/// Malformed requests are never forwarded (RFC 9113, 8.1.1).
fn malformed() -> Vec<Http2Case> {
    let fields: [(&str, &str, &[Field<'_>]); 17] = [
        ("Connection is malformed", "RFC 9113, 8.2.2", &[(b"connection", b"close")]),
        ("Keep-Alive is malformed", "RFC 9113, 8.2.2", &[(b"keep-alive", b"timeout=5")]),
        ("Proxy-Connection is malformed", "RFC 9113, 8.2.2", &[(b"proxy-connection", b"close")]),
        ("Transfer-Encoding is malformed", "RFC 9113, 8.2.2", &[(b"transfer-encoding", b"chunked")]),
        ("Upgrade is malformed", "RFC 9113, 8.2.2", &[(b"upgrade", b"websocket")]),
        ("TE of codings is malformed", "RFC 9113, 8.2.2", &[(b"te", b"gzip")]),
        ("upper case in a name is malformed", "RFC 9113, 8.2.1", &[(b"X", b"y")]),
        ("a space in a name is malformed", "RFC 9113, 8.2.1", &[(b"x y", b"z")]),
        ("a colon in a name is malformed", "RFC 9113, 8.2.1", &[(b"x:y", b"z")]),
        ("an empty name is malformed", "RFC 9113, 8.2.1", &[(b"", b"y")]),
        ("a name beyond ASCII is malformed", "RFC 9113, 8.2.1", &[(b"caf\xe9", b"y")]),
        ("a line end in a value is malformed", "RFC 9113, 8.2.1", &[(b"x", b"y\r\nhost: evil")]),
        ("a bare LF in a value is malformed", "RFC 9113, 8.2.1", &[(b"x", b"y\nz")]),
        ("a NUL in a value is malformed", "RFC 9113, 8.2.1", &[(b"x", b"y\0z")]),
        ("an unknown pseudo header is malformed", "RFC 9113, 8.3", &[(b":x", b"y")]),
        ("a response's pseudo header is malformed", "RFC 9113, 8.3", &[(b":status", b"200")]),
        ("a duplicate pseudo header is malformed", "RFC 9113, 8.3", &[(b":path", b"/evil")]),
    ];
    let mut rows = fields
        .map(|(name, source, fields)| case(name, source).sends([with(fields).ending()]).is_malformed(1))
        .to_vec();
    let heads: [(&str, &[(&str, &str)]); 8] = [
        ("a request without a method is malformed", &[GET[1], GET[2], GET[3]]),
        ("a request without a scheme is malformed", &[GET[0], GET[2], GET[3]]),
        ("a request without a path is malformed", &[GET[0], GET[1], GET[2]]),
        ("an empty path is malformed", &[GET[0], GET[1], GET[2], (":path", "")]),
        ("a path with a space is malformed", &[GET[0], GET[1], GET[2], (":path", "/a b")]),
        ("a path with a line end is malformed", &[GET[0], GET[1], GET[2], (":path", "/ HTTP/1.1\r\nx: y")]),
        ("an authority with a line end is malformed", &[GET[0], GET[1], (":authority", "a\r\nx: y"), GET[3]]),
        ("a pseudo header after other headers is malformed", &[GET[0], GET[1], GET[2], ("x", "y"), GET[3]]),
    ];
    rows.extend(heads.map(|(name, fields)| {
        case(name, "RFC 9113, 8.3").sends([headers(1, fields).ending()]).is_malformed(1)
    }));
    rows.extend([
        case("a method with a space is malformed", "RFC 9113, 8.3.1")
            .sends([request(1, "GET /evil HTTP/1.1\r\nx: ", "/", &[]).ending()])
            .is_malformed(1),
        case("a relative path is malformed", "RFC 9113, 8.3.1")
            .sends([request(1, "GET", "evil", &[]).ending()])
            .is_malformed(1),
        case("only OPTIONS may have the target *", "RFC 9113, 8.3.1")
            .sends([request(1, "GET", "*", &[]).ending()])
            .gets(1, problem(400)),
        case("a pseudo header among trailers is not forwarded", "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[]), headers(1, &[(":path", "/evil"), ("x", "y")]).ending()])
            .app_receives("POST / HTTP/2\n:authority: a\n\nx: y")
            .gets(1, ok()),
        case("trailers that do not end the stream are malformed", "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[]), headers(1, &[("x", "y")])])
            .app_may_receive("POST / HTTP/2\n:authority: a\n\n[cut]")
            .is_malformed(1),
    ]);
    rows
}

fn lengths() -> Vec<Http2Case> {
    let post = |length| request(1, "POST", "/", &[("content-length", length)]);
    vec![
        case("a body longer than its length is malformed", "RFC 9113, 8.1.1")
            .sends([post("3"), data(1, "hello").ending()])
            .app_may_receive("POST / HTTP/2\n:authority: a\ncontent-length: 3\n\n[cut]")
            .is_malformed(1),
        case("a body shorter than its length is malformed", "RFC 9113, 8.1.1")
            .sends([post("9"), data(1, "hello").ending()])
            .app_may_receive("POST / HTTP/2\n:authority: a\ncontent-length: 9\n\n[cut]")
            .is_malformed(1),
        case("an empty body with a length is malformed", "RFC 9113, 8.1.1")
            .sends([post("5").ending()])
            .is_malformed(1),
        case("a length that is not a number is malformed", "RFC 9113, 8.1.1")
            .sends([post("five"), data(1, "hello").ending()])
            .is_malformed(1),
        case("two lengths that differ are malformed", "RFC 9113, 8.1.1")
            .sends([
                request(1, "POST", "/", &[("content-length", "5"), ("content-length", "6")]),
                data(1, "hello").ending(),
            ])
            .is_malformed(1),
    ]
}

/// Frames that no peer may send end the connection (RFC 9113, 5.4.1).
fn frames() -> Vec<Http2Case> {
    let big = vec![0; 16_385];
    let frames: [(&str, &str, Frame, u32); 15] = [
        (
            "a frame above the agreed size ends the connection",
            "RFC 9113, 4.2",
            frame(0xfa, 0, 0, &big),
            FRAME_SIZE_ERROR,
        ),
        (
            "a PING of seven bytes ends the connection",
            "RFC 9113, 6.7",
            frame(6, 0, 0, "1234567"),
            FRAME_SIZE_ERROR,
        ),
        (
            "a PING on a stream ends the connection",
            "RFC 9113, 6.7",
            frame(6, 0, 1, "12345678"),
            PROTOCOL_ERROR,
        ),
        (
            "SETTINGS of five bytes end the connection",
            "RFC 9113, 6.5",
            frame(4, 0, 0, "12345"),
            FRAME_SIZE_ERROR,
        ),
        ("SETTINGS on a stream end the connection", "RFC 9113, 6.5", frame(4, 0, 1, ""), PROTOCOL_ERROR),
        (
            "an acknowledgement with values ends the connection",
            "RFC 9113, 6.5",
            frame(4, 1, 0, [0, 4, 0, 0, 0, 1]),
            FRAME_SIZE_ERROR,
        ),
        (
            "an initial window beyond 31 bits ends the connection",
            "RFC 9113, 6.5.2",
            setting(4, 1 << 31),
            FLOW_CONTROL_ERROR,
        ),
        (
            "a maximum frame size below 16 KiB ends the connection",
            "RFC 9113, 6.5.2",
            setting(5, 100),
            PROTOCOL_ERROR,
        ),
        (
            "a push by a client ends the connection",
            "RFC 9113, 8.4",
            frame(5, 4, 1, [0, 0, 0, 2]),
            PROTOCOL_ERROR,
        ),
        (
            "a WINDOW_UPDATE with increment 0 ends the connection",
            "RFC 9113, 6.9",
            window_update(0, 0),
            PROTOCOL_ERROR,
        ),
        (
            "a window beyond 31 bits ends the connection",
            "RFC 9113, 6.9.1",
            window_update(0, 0x7fff_ffff),
            FLOW_CONTROL_ERROR,
        ),
        (
            "a WINDOW_UPDATE of three bytes ends the connection",
            "RFC 9113, 6.9",
            frame(8, 0, 0, "123"),
            FRAME_SIZE_ERROR,
        ),
        (
            "a header block that is not HPACK ends the connection",
            "RFC 9113, 4.3",
            frame(1, 5, 1, b"\xff\xff\xff\xff\xff\xff"),
            COMPRESSION_ERROR,
        ),
        ("HEADERS on stream 0 end the connection", "RFC 9113, 6.2", get(0, "/"), PROTOCOL_ERROR),
        ("RST_STREAM on stream 0 ends the connection", "RFC 9113, 6.4", reset(0, CANCEL), PROTOCOL_ERROR),
    ];
    frames.map(|(name, source, frame, code)| case(name, source).sends([frame]).gets_goaway(code)).to_vec()
}

fn streams() -> Vec<Http2Case> {
    let open = request(1, "POST", "/", &[]).split(4);
    vec![
        case("an even stream of a client is a connection error", "RFC 9113, 5.1.1")
            .sends([get(2, "/")])
            .gets_goaway(PROTOCOL_ERROR),
        case("DATA on an idle stream is a connection error", "RFC 9113, 5.1")
            .sends([data(1, "x")])
            .gets_goaway(PROTOCOL_ERROR),
        case("RST_STREAM on an idle stream is a connection error", "RFC 9113, 5.1")
            .sends([reset(1, CANCEL)])
            .gets_goaway(PROTOCOL_ERROR),
        case("WINDOW_UPDATE on an idle stream is a connection error", "RFC 9113, 5.1")
            .sends([window_update(1, 1)])
            .gets_goaway(PROTOCOL_ERROR),
        case("a decreasing stream id is a connection error", "RFC 9113, 5.1.1")
            .sends([get(5, "/5")])
            .app_receives("GET /5 HTTP/2\n:authority: a")
            .gets(5, ok())
            .sends([get(3, "/3")])
            .gets_goaway(PROTOCOL_ERROR),
        case("CONTINUATION without HEADERS is a connection error", "RFC 9113, 6.10")
            .sends([continuation(1, "x")])
            .gets_goaway(PROTOCOL_ERROR),
        case("another frame within a header block is a connection error", "RFC 9113, 6.10")
            .sends([open[0].clone(), frame(6, 0, 0, "12345678")])
            .gets_goaway(PROTOCOL_ERROR),
        case("another stream's CONTINUATION is a connection error", "RFC 9113, 6.10")
            .sends([open[0].clone(), continuation(3, "x")])
            .gets_goaway(PROTOCOL_ERROR),
        case("DATA after the end of a stream is not forwarded", "RFC 9113, 5.1")
            .sends([get(1, "/")])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, ok())
            .sends([data(1, "more")]),
        case("a stream that depends on itself is served", "RFC 9113, 5.3.2: priorities are obsolete")
            .sends([get(1, "/")])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, ok())
            .sends([frame(2, 0, 3, [0, 0, 0, 0, 0])]),
        case("DATA beyond the window is an error", "RFC 9113, 6.9.1")
            .app([ReadsHead, Stalls])
            .sends([request(1, "POST", "/", &[])])
            // More than the windows of both connections and the bytes in flight between them.
            .sends((0..12).map(|_| data(1, [b'x'; 16_384])))
            .app_receives_any()
            .is_rejected(1, FLOW_CONTROL_ERROR),
        case("a client gets its response after it has sent GOAWAY", "RFC 9113, 6.8")
            .sends([get(1, "/"), goaway(0, NO_ERROR)])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, ok())
            .then_not_http(),
    ]
}

fn floods() -> Vec<Http2Case> {
    let resets = (0..500).flat_map(|n| [get(2 * n + 1, "/"), reset(2 * n + 1, CANCEL)]);
    let parts = (0..1000).map(|_| continuation(1, "x"));
    let large = format!("{}{}", "v".repeat(16_000), "w");
    let fields: Vec<(&str, &str)> = (0..5).map(|_| ("x", large.as_str())).collect();
    vec![
        case("a client that does not reply to PING is disconnected", "half-open connections")
            // Without a request, which on a busy machine is slower than the timeout.
            .step(Http2Step::StopsPingReplies)
            .with_short_head()
            .then_closes(),
        case("a client without requests that replies to PING is disconnected", "RFC 9113, 9.1")
            .sends([get(1, "/")])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, ok())
            .with_short_header_timeout()
            .gets_goaway(NO_ERROR),
        case("an idle connection outlives the header timeout", "RFC 9113, 9.1; load balancers")
            .sends([get(1, "/")])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets(1, ok())
            .step(Http2Step::Pauses)
            .with_short_head(),
        case("endless resets of new streams end the connection", "CVE-2023-44487")
            .sends(resets)
            .app_receives_any()
            .gets_goaway(ENHANCE_YOUR_CALM),
        case("endless CONTINUATION ends the connection", "CVE-2024-27316")
            .sends([request(1, "GET", "/", &[]).split(4)[0].clone()])
            .sends(parts)
            .gets_goaway(ENHANCE_YOUR_CALM),
        case("headers beyond 64 KiB are rejected, the connection stays open", "RFC 9113, 10.5.1")
            .sends(request(1, "GET", "/", &fields).ending().split(16_000))
            .gets(1, response(431)),
        case("endless empty DATA frames end the connection", "CVE-2019-9518")
            .sends([request(1, "POST", "/", &[])])
            .sends((0..20_000).map(|_| data(1, "")))
            .app_receives_any()
            .gets_goaway(ENHANCE_YOUR_CALM),
        case("each stream above the limit is rejected", "RFC 9113, 5.1.2")
            .sends((0..1025).map(|n| request(2 * n + 1, "POST", "/", &[])))
            .app_receives_any()
            .is_reset(2049, REFUSED_STREAM)
            .sends((0..1024).map(|n| data(2 * n + 1, "").ending()))
            .gets(1, ok())
            .gets(2047, ok()),
    ]
}

/// Responses of apps over HTTP/2.
fn app() -> Vec<Http2Case> {
    let row = |name, source, frames: Vec<Frame>| {
        case(name, source)
            .sends([get(1, "/")])
            .app_responds(frames)
            .app_receives("GET / HTTP/2\n:authority: a")
    };
    let whole = || vec![headers(1, &[(":status", "200")]), data(1, "ok").ending()];
    let mut rows = vec![
        row(
            "early hints reach the client",
            "RFC 9110, 15.2: a proxy forwards interim responses; RFC 8297",
            [vec![headers(1, &[(":status", "103"), ("link", "</a.css>")])], whole()].concat(),
        )
        .gets_interim(1, &[(":status", "103"), ("link", "</a.css>")])
        .gets(1, ok()),
        row(
            "a response head in CONTINUATIONs is reassembled",
            "RFC 9113, 6.10",
            [headers(1, &[(":status", "200"), ("x", "yyyyyyyyyyyy")]).split(8), vec![data(1, "ok").ending()]]
                .concat(),
        )
        .gets(1, ok().with("x: yyyyyyyyyyyy")),
        row("204 has no body", "RFC 9110, 15.3.5", vec![headers(1, &[(":status", "204")]).ending()])
            .gets(1, response(204).body("")),
        row(
            "304 has no body, whatever its length is, and may end with an empty frame",
            "RFC 9113, 8.1.1",
            vec![headers(1, &[(":status", "304"), ("content-length", "500")]), data(1, "").ending()],
        )
        .gets(1, response(304).with("content-length: 500").body("")),
        case("a response to HEAD has no body, whatever its length is", "RFC 9113, 8.1.1")
            .sends([request(1, "HEAD", "/", &[]).ending()])
            .app_responds([headers(1, &[(":status", "200"), ("content-length", "500")]).ending()])
            .app_receives("HEAD / HTTP/2\n:authority: a")
            .gets(1, response(200).with("content-length: 500").body("")),
        row(
            "an app that resets a stream fails the request",
            "RFC 9113, 5.4.2",
            vec![reset(1, INTERNAL_ERROR)],
        )
        .gets(1, problem(502)),
        row(
            "a body that an app resets is cut",
            "RFC 9113, 5.4.2",
            vec![headers(1, &[(":status", "200")]), data(1, "hel"), reset(1, INTERNAL_ERROR)],
        )
        .is_reset(1, INTERNAL_ERROR),
        row(
            "a request after an app's GOAWAY uses a new connection",
            "RFC 9113, 6.8",
            [whole(), vec![goaway(1, NO_ERROR)]].concat(),
        )
        .gets(1, ok()),
        row("a connection that the app closed while idle is replaced", "RFC 9113, 9.1", whole())
            .app([Closes])
            .gets(1, ok())
            .step(Http2Step::AwaitsProxy),
        case("an app that closes without a response causes 502", "RFC 9110, 9.2.2")
            .sends([request(1, "POST", "/", &[]), data(1, "hello").ending()])
            .app([Reads, Closes])
            .app_receives("POST / HTTP/2\n:authority: a\n\nhello")
            .gets(1, problem(502)),
        row(
            "a body that ends with the connection is cut",
            "RFC 9113, 8.1",
            vec![headers(1, &[(":status", "200")]), data(1, "hel")],
        )
        .app([Closes])
        .step(Http2Step::IsCut(1)),
    ];
    let malformed: [(&str, &str, Vec<Frame>); 7] = [
        (
            "a response without a status is rejected",
            "RFC 9113, 8.3.2",
            vec![headers(1, &[("x", "y")]).ending()],
        ),
        (
            "a response with upper case is rejected",
            "RFC 9113, 8.2.1",
            vec![headers(1, &[(":status", "200"), ("X", "y")]).ending()],
        ),
        (
            "a response with a line end is rejected",
            "RFC 9113, 8.2.1",
            vec![headers(1, &[(":status", "200"), ("x", "y\r\nz: 1")]).ending()],
        ),
        (
            "a response with Connection is rejected",
            "RFC 9113, 8.2.2",
            vec![headers(1, &[(":status", "200"), ("connection", "close")]).ending()],
        ),
        (
            "a response head in more than five CONTINUATIONs is rejected",
            "h2's bound",
            headers(1, &[(":status", "200"), ("x", "yyyyyyyyyyyy")]).ending().split(4),
        ),
        (
            "a response with Transfer-Encoding is rejected",
            "RFC 9113, 8.2.2",
            vec![headers(1, &[(":status", "200"), ("transfer-encoding", "chunked")]).ending()],
        ),
        ("a response that begins with its body is rejected", "RFC 9113, 8.1", vec![data(1, "ok").ending()]),
    ];
    rows.extend(malformed.map(|(name, source, frames)| row(name, source, frames).gets(1, problem(502))));
    rows.extend([
        row(
            "a response longer than its length is cut",
            "RFC 9113, 8.1.1",
            vec![headers(1, &[(":status", "200"), ("content-length", "2")]), data(1, "hello").ending()],
        )
        .step(Http2Step::IsCut(1)),
        row(
            "a response shorter than its length is cut",
            "RFC 9113, 8.1.1",
            vec![headers(1, &[(":status", "200"), ("content-length", "9")]), data(1, "hello").ending()],
        )
        .step(Http2Step::IsCut(1)),
    ]);
    rows
}
