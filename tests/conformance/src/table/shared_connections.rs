//! One client's stream does not stop the streams of others on the connection to the app, which all
//! clients share. A sidecar's window fits the uploads of all streams, so these rows are not for an
//! activator in front of one.

use crate::case::ok;
use crate::http2::Http2Action::{ReadsHead, Stalls};
use crate::http2::{Frame, Http2Case, Http2Step, case, data, request};

/// The rows.
pub fn rows() -> Vec<Http2Case> {
    unread_uploads()
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
