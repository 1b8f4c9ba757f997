//! HTTP/2 resets: only END_STREAM ends a message, a reset before it cuts the message.

use crate::case::{ok, problem, response};
use crate::http2::Http2Action::{ExpectsReset, Reads, ReadsHead, Sends};
use crate::http2::code::*;
use crate::http2::{Frame, Http2Case, Http2Step, case, data, get, headers, request, reset};

/// Codes that some peers take for an orderly end, and one that none does.
const CODES: [u32; 3] = [NO_ERROR, CANCEL, INTERNAL_ERROR];

/// The rows.
pub(super) fn rows() -> Vec<Http2Case> {
    [requests(), uploads_after_response(), responses(), complete_responses(), early_answers()].concat()
}

fn requests() -> Vec<Http2Case> {
    let cut = |name, code, head: Frame, observed: &str| {
        case(name, "RFC 9113, 5.4.2")
            .sends([head, data(1, "hello")])
            .app([ReadsHead, ExpectsReset])
            .step(Http2Step::AwaitsApp(1))
            // A reset may overtake bytes that are not forwarded yet.
            .step(Http2Step::AwaitsProxy)
            .sends([reset(1, code)])
            .app_receives(observed)
    };
    let streamed = || request(1, "POST", "/", &[]);
    let sized = || request(1, "POST", "/", &[("content-length", "5")]);
    let seen = "POST / HTTP/2\n:authority: a";
    let seen_sized = "POST / HTTP/2\n:authority: a\ncontent-length: 5";
    vec![
        cut("a request that its client resets with CANCEL is cut for the app", CANCEL, streamed(), seen),
        cut("a request that its client resets with NO_ERROR is cut for the app", NO_ERROR, streamed(), seen),
        cut(
            "a request of full length that is reset with NO_ERROR is cut for the app",
            NO_ERROR,
            sized(),
            seen_sized,
        ),
        cut(
            "a request of full length that is reset with CANCEL is cut for the app",
            CANCEL,
            sized(),
            seen_sized,
        ),
    ]
}

/// The response is complete, and the upload goes on.
fn uploads_after_response() -> Vec<Http2Case> {
    let row = |name, code| {
        case(name, "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[]), data(1, "hello")])
            .app([ReadsHead, Sends(vec![headers(1, &[(":status", "200")]), data(1, "ok").ending()])])
            .app([ExpectsReset])
            .app_receives("POST / HTTP/2\n:authority: a")
            .gets(1, ok())
            .sends([data(1, "more"), reset(1, code)])
    };
    vec![
        row("an upload that its client resets with CANCEL after the response is cut", CANCEL),
        row("an upload that its client resets with NO_ERROR after the response is cut", NO_ERROR),
    ]
}

fn responses() -> Vec<Http2Case> {
    let heads: [(_, &[(&str, &str)]); 2] = [
        (
            [
                "a response that an app resets with NO_ERROR is cut",
                "a response that an app resets with CANCEL is cut",
                "a response that an app resets with INTERNAL_ERROR is cut",
            ],
            &[(":status", "200")],
        ),
        (
            [
                "a response of full length that an app resets with NO_ERROR is cut",
                "a response of full length that an app resets with CANCEL is cut",
                "a response of full length that an app resets with INTERNAL_ERROR is cut",
            ],
            &[(":status", "200"), ("content-length", "3")],
        ),
    ];
    let rows = heads.into_iter().flat_map(|(names, head)| {
        names.into_iter().zip(CODES).map(move |(name, code)| {
            case(name, "RFC 9113, 5.4.2; hyperium/hyper#3681, connectrpc/connect-es#1751")
                .sends([get(1, "/")])
                .app([Reads, Sends(vec![headers(1, head), data(1, "hel")]), Sends(vec![reset(1, code)])])
                .app_receives("GET / HTTP/2\n:authority: a")
                .step(Http2Step::IsCut(1))
        })
    });
    let second_heads = [
        ("a response with an interim one within its body is cut", "103"),
        ("a response with a second head within its body is cut", "200"),
    ];
    let second_heads = second_heads.map(|(name, status)| {
        let first = [headers(1, &[(":status", "200")]), data(1, "hel")];
        let second = [headers(1, &[(":status", status)]), data(1, "lo").ending()];
        case(name, "RFC 9113, 8.1")
            .sends([get(1, "/")])
            .app([Reads, Sends([first, second].concat())])
            .app_receives("GET / HTTP/2\n:authority: a")
            .step(Http2Step::IsCut(1))
    });
    rows.chain(second_heads).collect()
}

/// A server that needs no more of the request resets the stream after a complete response.
fn complete_responses() -> Vec<Http2Case> {
    let row = |name, frames: Vec<Frame>, expected| {
        case(name, "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[])])
            .app([ReadsHead, Sends([frames, vec![reset(1, NO_ERROR)]].concat())])
            .app_receives("POST / HTTP/2\n:authority: a")
            .gets(1, expected)
            // The rest of the request; the stream may be closed by now.
            .sends([reset(1, CANCEL)])
    };
    let status = || headers(1, &[(":status", "200")]);
    vec![
        row(
            "a complete response before a reset with NO_ERROR is complete",
            vec![status(), data(1, "ok").ending()],
            ok(),
        ),
        row(
            "a complete response of known length before a reset with NO_ERROR is complete",
            vec![headers(1, &[(":status", "200"), ("content-length", "2")]), data(1, "ok").ending()],
            ok(),
        ),
        row(
            "a response that ends with trailers before a reset with NO_ERROR is complete",
            vec![status(), data(1, "ok"), headers(1, &[("x-sum", "1")]).ending()],
            ok().trailer("x-sum: 1"),
        ),
        row(
            "a response without a body before a reset with NO_ERROR is complete",
            vec![headers(1, &[(":status", "204")]).ending()],
            response(204).body(""),
        ),
    ]
}

/// A client in the middle of an upload gets the response, and then a reset with NO_ERROR: it need
/// not send the rest, which the proxy does not wait for.
fn early_answers() -> Vec<Http2Case> {
    let part = "b".repeat(16_000);
    let parts = || [data(1, &part), data(1, &part)];
    let app_row = |name, frames: Vec<Frame>| {
        case(name, "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[])])
            .sends(parts())
            .app([ReadsHead, Sends(frames)])
            .app_receives("POST / HTTP/2\n:authority: a")
            .gets(1, response(413).body("no"))
            .is_reset(1, NO_ERROR)
            .sends(parts())
    };
    let answer = || vec![headers(1, &[(":status", "413")]), data(1, "no").ending()];
    vec![
        app_row(
            "a client in the middle of an upload gets an early response of the app",
            [answer(), vec![reset(1, NO_ERROR)]].concat(),
        ),
        case("a client in the middle of an upload gets a rejection", "RFC 9113, 8.1")
            .sends([request(1, "POST", "/", &[("host", "b")])])
            .sends(parts())
            .gets(1, problem(400))
            .is_reset(1, NO_ERROR)
            .sends(parts()),
    ]
}
