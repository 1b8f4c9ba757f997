//! Requests that do not count (here health checks) can do what all others can.

use crate::case::AppAction::{Closes, Reads, ReadsBytes, Sends};
use crate::case::{Case, case, ok, problem, response};
use crate::http2::Http2Action::{self, ExpectsReset, ReadsHead};
use crate::http2::code::CANCEL;
use crate::http2::{self, Http2Case, Http2Step, data, headers, request, reset};

const SOURCE: &str = "no-wake rules and health checks are requests all the same";
const AGENT: &str = "user-agent: kube-probe/1.37";

/// The rows.
pub fn rows() -> Vec<Case> {
    let agrees = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let trailers = "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n";
    vec![
        case("a websocket that does not count is relayed", SOURCE)
            .sends(format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{AGENT}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            ))
            .app([
                Reads,
                Sends(agrees.to_vec()),
                ReadsBytes(b"ping".to_vec()),
                Sends(b"pong".to_vec()),
                Closes,
            ])
            .app_receives(format!(
                "GET / HTTP/1.1\nconnection: upgrade\nhost: a\nupgrade: websocket\n{AGENT}"
            ))
            .gets(response(101))
            .sends("ping")
            .gets_bytes("pong")
            .then_closes(),
        case("an upgrade that does not count may be rejected", SOURCE)
            .sends(format!(
                "GET / HTTP/1.1\r\nHost: a\r\n{AGENT}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            ))
            .app_responds("HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno")
            .app_receives(format!(
                "GET / HTTP/1.1\nconnection: upgrade\nhost: a\nupgrade: websocket\n{AGENT}"
            ))
            .gets(response(403).body("no")),
        case("a body of a request that does not count is forwarded", SOURCE)
            .sends(format!("POST / HTTP/1.1\r\nHost: a\r\n{AGENT}\r\nContent-Length: 5\r\n\r\nhello"))
            .passes(format!("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n{AGENT}\n\nhello")),
        case("a client that does not count and waits for 100 Continue gets it", SOURCE)
            .sends(format!(
                "POST / HTTP/1.1\r\nHost: a\r\n{AGENT}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
            ))
            .gets(response(100))
            .sends("hello")
            .passes(format!(
                "POST / HTTP/1.1\ncontent-length: 5\nexpect: 100-continue\nhost: a\n{AGENT}\n\nhello"
            )),
        case("a response that does not count and is cut is cut for the client", SOURCE)
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{AGENT}\r\n\r\n"))
            .app([Reads, Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello".to_vec()), Closes])
            .app_receives(format!("GET / HTTP/1.1\nhost: a\n{AGENT}"))
            .gets(response(200).body("hello").cut())
            .then_closes(),
        case("trailers of a response that does not count are forwarded", SOURCE)
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{AGENT}\r\nTE: trailers\r\nConnection: TE\r\n\r\n"))
            .app_responds(trailers)
            .app_receives(format!("GET / HTTP/1.1\nhost: a\nte: trailers\n{AGENT}"))
            .gets(ok().trailer("x-sum: 1")),
    ]
}

/// The rows of HTTP/2.
pub fn http2_rows() -> Vec<Http2Case> {
    let row = |name| {
        http2::case(name, SOURCE)
            .sends([
                request(1, "POST", "/", &[("user-agent", "kube-probe/1.37")]),
                data(1, "hello"),
                headers(1, &[("x-sum", "1")]).ending(),
            ])
            .app_receives(format!("POST / HTTP/2\n:authority: a\n{AGENT}\n\nhello\n\nx-sum: 1"))
    };
    let head = || request(1, "POST", "/", &[("user-agent", "kube-probe/1.37")]);
    let seen = format!("POST / HTTP/2\n:authority: a\n{AGENT}");
    vec![
        http2::case("an interim response that does not count is forwarded", SOURCE)
            .sends([head().ending()])
            .app_responds([headers(1, &[(":status", "103"), ("link", "</a>")])])
            .app([Http2Action::Sends(vec![headers(1, &[(":status", "200")]), data(1, "ok").ending()])])
            .app_receives(&seen)
            .gets_interim(1, &[(":status", "103"), ("link", "</a>")])
            .gets(1, ok()),
        http2::case("an upload that does not count and is reset is cut for the app", SOURCE)
            .sends([head(), data(1, "hello")])
            .app([ReadsHead, ExpectsReset])
            .step(Http2Step::AwaitsApp(1))
            .sends([reset(1, CANCEL)])
            .app_receives(&seen),
        http2::case("a response that does not count and is reset is cut", SOURCE)
            .sends([head().ending()])
            .app_responds([headers(1, &[(":status", "200")]), data(1, "hel")])
            .app([Http2Action::Sends(vec![reset(1, CANCEL)])])
            .app_receives(&seen)
            .step(Http2Step::IsCut(1)),
        http2::case("CONNECT over HTTP/2 that does not count is rejected", SOURCE)
            .sends([headers(
                1,
                &[(":method", "CONNECT"), (":authority", "a:80"), ("user-agent", "kube-probe/1.37")],
            )])
            .gets(1, problem(501)),
        row("a request over HTTP/2 that does not count is forwarded with its trailers").gets(1, ok()),
        row("trailers of a response over HTTP/2 that does not count are forwarded")
            .app_responds([
                headers(1, &[(":status", "200")]),
                data(1, "ok"),
                headers(1, &[("grpc-status", "0")]).ending(),
            ])
            .gets(1, ok().trailer("grpc-status: 0")),
    ]
}
