//! Bytes: what a proxy in TCP mode passes on, which is everything, and how a connection ends.

use crate::case::AppAction::{Closes, ClosesWrite, ExpectsReset, ReadsBytes, Resets, Sends};
use crate::case::{Case, ClientStep, case};

/// The rows.
pub fn rows() -> Vec<Case> {
    [bytes(), half_closes(), resets()].concat()
}

fn row(name: &'static str, source: &'static str) -> Case {
    case(name, source)
        .sends("hello")
        .app([ReadsBytes(b"hello".to_vec()), Sends(b"welcome".to_vec())])
        .gets_bytes("welcome")
        .then_not_http()
}

fn bytes() -> Vec<Case> {
    let long = vec![b'x'; 1 << 20];
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r";
    vec![
        row("bytes that are not HTTP are relayed unchanged in both directions", "TCP mode")
            .sends(b"\0\xff\r\n\r\n")
            .app([ReadsBytes(b"\0\xff\r\n\r\n".to_vec()), Sends(b"\x80\0\n".to_vec()), Closes])
            .gets_bytes(b"\x80\0\n")
            .then_closes(),
        row("a malformed request is relayed", "TCP mode")
            .sends("GET / HTTP/1.1\r\nX : y\r\nContent-Length: -1\r\n\r\n")
            .app([ReadsBytes(b"GET / HTTP/1.1\r\nX : y\r\nContent-Length: -1\r\n\r\n".to_vec()), Closes])
            .then_closes(),
        row("a part of the preface of HTTP/2 is relayed", "TCP mode")
            .sends(preface)
            .app([ReadsBytes(preface.to_vec()), Closes])
            .then_closes(),
        row("a megabyte is relayed in both directions", "TCP mode")
            .sends(&long)
            .app([ReadsBytes(long.clone()), Sends(long.clone()), Closes])
            .gets_bytes(&long)
            .then_closes(),
    ]
}

fn half_closes() -> Vec<Case> {
    vec![
        row("a client may close its sending side and continue to read", "RFC 9293, 3.6; nc -N")
            .app([ReadsBytes(b"last word".to_vec()), Sends(b"reply".to_vec()), Closes])
            .sends("last word")
            .step(ClientStep::ClosesWrite)
            .gets_bytes("reply")
            .then_closes(),
        row("an app may close its sending side and continue to read", "RFC 9293, 3.6")
            .app([ClosesWrite, ReadsBytes(b"more".to_vec())])
            .sends("more")
            .step(ClientStep::ClosesWrite)
            .then_closes(),
        row("what an app sends before it closes arrives", "envoyproxy/envoy#2929")
            .app([Sends(vec![b'x'; 300_000]), Closes])
            .gets_bytes(vec![b'x'; 300_000])
            .then_closes(),
    ]
}

fn resets() -> Vec<Case> {
    let source = "an abort is not an end";
    vec![
        row("an app that resets its connection resets the client's", source)
            .app([ReadsBytes(b"more".to_vec()), Resets])
            .sends("more")
            .step(ClientStep::IsReset),
        row("an app that resets behind the end of the client's bytes resets the client's connection", source)
            .app([ReadsBytes(b"more".to_vec()), Resets])
            .sends("more")
            .step(ClientStep::ClosesWrite)
            .step(ClientStep::IsReset),
        row("a client that resets its connection resets the app's", source)
            .app([ExpectsReset])
            .step(ClientStep::Resets),
        row("a client that resets behind the end of the app's bytes resets the app's connection", source)
            .app([ClosesWrite, ExpectsReset])
            .step(ClientStep::AwaitsEnd)
            .step(ClientStep::Resets),
    ]
}
