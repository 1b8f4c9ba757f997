//! One client's stream does not stop the streams of others: on a client's connection, which an
//! ingress shares among its clients, and on the connection to the app, which all clients share.

use crate::case::ok;
use crate::http2::Http2Action::{Reads, ReadsHead, Sends, Stalls};
use crate::http2::code::CANCEL;
use crate::http2::{
    Frame, Http2Case, Http2Step, case, data, get, headers, request, reset, setting, window_update,
};

/// The rows of uploads. A sidecar's window fits those of all streams, so an activator in front of
/// one does not pass them.
pub fn upload_rows() -> Vec<Http2Case> {
    unread_uploads()
}

/// The rows of cancelled requests.
pub fn cancelled_rows() -> Vec<Http2Case> {
    let source = "h2#780: an ingress whose clients disconnect";
    let burst = |name, count: u32| {
        let cancelled = (1..=count).flat_map(|n| [get(2 * n + 1, "/n"), reset(2 * n + 1, CANCEL)]);
        case(name, source)
            .sends([request(1, "POST", "/", &[])])
            .sends(cancelled)
            .sends([data(1, "hello").ending()])
            .app_receives("POST / HTTP/2\n:authority: a\n\nhello")
            .gets(1, ok())
    };
    vec![
        burst("30 requests that are cancelled at once do not end another, and are not forwarded", 30),
        burst("200 requests that are cancelled at once do not end another, and are not forwarded", 200),
    ]
}

/// The rows of responses that a client does not read.
pub fn response_rows() -> Vec<Http2Case> {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let unread = |stream| [headers(stream, &[(":status", "200")]), data(stream, [b'x'; 16_000])];
    let row = |name, headers: &'static [(&'static str, &'static str)]| {
        let call = |stream, path| request(stream, "POST", path, headers).ending();
        let more = headers.iter().map(|(name, value)| format!("\n{name}: {value}")).collect::<String>();
        (0..8)
            .fold(case(name, "linkerd2-proxy#400, hyper#4003"), |row, n| {
                row.sends([setting(INITIAL_WINDOW_SIZE, 0), call(2 * n + 1, "/")])
                    .app([Reads, Sends(unread(1).to_vec())])
                    .step(Http2Step::AwaitsApp(n as usize + 1))
                    .app_receives(format!("POST / HTTP/2\n:authority: a{more}"))
            })
            .sends([call(101, "/read"), window_update(101, 1000)])
            .app_receives(format!("POST /read HTTP/2\n:authority: a{more}"))
            .gets(101, ok())
            .sends([setting(INITIAL_WINDOW_SIZE, 65_535)])
    };
    vec![
        row("responses that their client does not read do not stop another", &[]),
        row(
            "responses of gRPC that their client does not read do not stop another",
            &[("content-type", "application/grpc")],
        ),
    ]
}

/// An upload that fills its window, with the end of the body if `ends`.
fn full_window(stream: u32, ends: bool) -> Vec<Frame> {
    let mut frames = vec![request(stream, "POST", "/", &[])];
    frames.extend((0..3).map(|_| data(stream, [b'x'; 16_384])));
    let last = data(stream, [b'x'; 16_383]);
    frames.push(if ends { last.ending() } else { last });
    frames
}

fn unread_uploads() -> Vec<Http2Case> {
    let source = "linkerd2-proxy#400, hyper#4003";
    let row = |name, ends| {
        case(name, source)
            .app([ReadsHead, Stalls])
            .sends(full_window(1, ends))
            .step(Http2Step::AwaitsApp(1))
            .app_receives("POST / HTTP/2\n:authority: a")
    };
    vec![
        row("an upload that the app does not read does not stop another", false)
            .sends([request(3, "POST", "/3", &[]), data(3, "hello"), data(3, "").ending()])
            .app_receives("POST /3 HTTP/2\n:authority: a\n\nhello")
            .gets(3, ok()),
        row("a whole upload that the app does not read does not stop another", true)
            .sends([request(3, "POST", "/3", &[]), data(3, "hello").ending()])
            .app_receives("POST /3 HTTP/2\n:authority: a\n\nhello")
            .gets(3, ok()),
        row("an upload that the app does not read does not stop one with a length", false)
            .sends([request(3, "POST", "/3", &[("content-length", "5")]), data(3, "hello").ending()])
            .app_receives("POST /3 HTTP/2\n:authority: a\ncontent-length: 5\n\nhello")
            .gets(3, ok()),
    ]
}
