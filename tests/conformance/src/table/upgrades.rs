//! Connections that change their protocol: websockets, and h2c, which does not.

use crate::case::AppAction::{Closes, ClosesWrite, ExpectsReset, Reads, ReadsBytes, Resets, Sends, Stalls};
use crate::case::{Case, ClientStep, case, ok, response};

const UPGRADE_REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SEEN: &str = "GET /chat HTTP/1.1\nconnection: upgrade\nhost: a\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\nsec-websocket-version: 13\nupgrade: websocket";
const AGREES: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// The rows.
pub fn rows() -> Vec<Case> {
    [tunnels(), refusals(), h2c()].concat()
}

fn agreed(name: &'static str, source: &'static str) -> Case {
    case(name, source)
        .sends(UPGRADE_REQUEST)
        .app([Reads, Sends(AGREES.into())])
        .app_receives(SEEN)
        .gets(
            response(101)
                .with("connection: Upgrade")
                .with("upgrade: websocket")
                .with("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        )
        .then_not_http()
}

fn tunnels() -> Vec<Case> {
    vec![
        agreed("an upgraded connection relays bytes in both directions", "RFC 9110, 7.8; KEDA http-add-on#1335")
            .app([ReadsBytes(b"ping".to_vec()), Sends(b"pong".to_vec()), ReadsBytes(b"\0\xff\r\n\r\n".to_vec())])
            .app([Sends(b"\x01\x02".to_vec()), Closes])
            .sends("ping")
            .gets_bytes("pong")
            .sends(b"\0\xff\r\n\r\n")
            .gets_bytes(b"\x01\x02")
            .then_closes(),
        case("bytes in the same packet as the 101 are forwarded", "RFC 9110, 7.8")
            .sends(UPGRADE_REQUEST)
            .app([Reads, Sends([AGREES.as_bytes(), b"hello"].concat()), Closes])
            .app_receives(SEEN)
            .gets(response(101))
            .gets_bytes("hello")
            .then_closes(),
        case("bytes sent before the 101 are forwarded", "RFC 9110, 7.8")
            .sends([UPGRADE_REQUEST.as_bytes(), b"eager"].concat())
            .app([Reads, Sends(AGREES.into()), ReadsBytes(b"eager".to_vec()), Sends(b"yes".to_vec()), Closes])
            .app_receives(SEEN)
            .gets(response(101))
            .gets_bytes("yes")
            .then_closes(),
        agreed("a client may close its sending side and continue to read", "half-closed tunnels, as of a shell")
            .app([ReadsBytes(b"last word".to_vec()), Sends(b"reply".to_vec()), ClosesWrite])
            .sends("last word")
            .step(ClientStep::ClosesWrite)
            .gets_bytes("reply")
            .then_closes(),
        agreed("an app may close its sending side and continue to read", "half-closed tunnels")
            .app([ReadsBytes(b"hello".to_vec()), Sends(b"bye".to_vec()), ClosesWrite])
            .app([ReadsBytes(b"more".to_vec()), ReadsBytes(b"last".to_vec())])
            .sends("hello")
            .gets_bytes("bye")
            .sends("more")
            .step(ClientStep::AwaitsProxy)
            .sends("last")
            .step(ClientStep::ClosesWrite)
            .then_closes(),
        agreed("a websocket whose client has closed ends, though the app does not close", "RFC 6455, 7.1.1")
            .app([ReadsBytes(b"last word".to_vec()), Stalls])
            .sends("last word")
            .step(ClientStep::ClosesWrite)
            .then_closes(),
        agreed("an app that resets its tunnel resets the client's connection", "an abort is not an end")
            .app([Sends(b"half".to_vec()), ReadsBytes(b"ack".to_vec()), Resets])
            .gets_bytes("half")
            .sends("ack")
            .step(ClientStep::IsReset),
        agreed("a client that resets its tunnel resets the app's connection", "an abort is not an end")
            .app([ReadsBytes(b"half".to_vec()), Sends(b"ack".to_vec()), ExpectsReset])
            .sends("half")
            .gets_bytes("ack")
            .step(ClientStep::Resets),
        case("an upgrade may have a body", "RFC 9110, 7.8")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello")
            .app([Reads, Sends(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_vec())])
            .app([ReadsBytes(b"ping".to_vec()), Sends(b"pong".to_vec()), Closes])
            .app_receives("POST / HTTP/1.1\nconnection: upgrade\ncontent-length: 5\nhost: a\nupgrade: x\n\nhello")
            .gets(response(101))
            .sends("ping")
            .gets_bytes("pong")
            .then_closes(),
        case("Upgrade is found among other options", "RFC 9110, 7.8; Firefox sends this")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
            .app([Reads, Sends(AGREES.into()), Closes])
            .app_receives("GET / HTTP/1.1\nconnection: upgrade\nhost: a\nupgrade: websocket")
            .gets(response(101))
            .then_closes(),
    ]
}

fn refusals() -> Vec<Case> {
    vec![
        case("an app may reject an upgrade, and the connection stays open", "RFC 9110, 7.8")
            .sends(UPGRADE_REQUEST)
            .app_responds("HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno")
            .app_receives(SEEN)
            .gets(response(403).body("no")),
        case("an app may ignore an upgrade", "RFC 9110, 7.8").sends(UPGRADE_REQUEST).passes(SEEN),
        case("an unsupported version of websockets is rejected by the app", "RFC 6455, 4.2.2")
            .sends(UPGRADE_REQUEST)
            .app_responds("HTTP/1.1 426 Upgrade Required\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\ncontent-length: 0\r\n\r\n")
            .app_receives(SEEN)
            .gets(response(426).with("sec-websocket-version: 13")),
        case("HTTP/1.0 cannot upgrade", "RFC 9110, 7.8")
            .sends("GET / HTTP/1.0\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a")
            .then_closes(),
        case("Connection: upgrade alone is not an upgrade", "RFC 9110, 7.8")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a"),
        case("an app that upgrades and closes ends the connection", "RFC 9110, 7.8")
            .sends(UPGRADE_REQUEST)
            .app([Reads, Sends(AGREES.into()), Closes])
            .app_receives(SEEN)
            .gets(response(101))
            .then_closes(),
    ]
}

/// h2c by Upgrade is obsolete (RFC 9113, 3.1) and can bypass proxies that forward it. The proxies
/// ignore it, as a server may (docs/design/protocols.md).
fn h2c() -> Vec<Case> {
    let upgrade_to = |upgrade| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        )
    };
    let ignored = |name, upgrade| {
        case(name, "RFC 7540, 3.2; RFC 9113, 3.1")
            .sends(upgrade_to(upgrade))
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok().without("upgrade: "))
    };
    vec![
        ignored("h2c by Upgrade is answered as HTTP/1.1", "h2c"),
        ignored("the name of the coding is case-insensitive", "H2C"),
        ignored("an upgrade to h2c among others is ignored", "websocket, h2c"),
        ignored("an upgrade to another HTTP/2 token is ignored", "h2c-14"),
        ignored("an upgrade to h2 is ignored", "h2"),
    ]
}
