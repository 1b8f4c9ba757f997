//! Slow clients and idle connections.

use crate::case::{Case, ClientStep, case, ok, response};

/// The rows; the header timeout is 300 ms.
pub fn rows() -> Vec<Case> {
    let rows = vec![
        case("a connection without bytes is closed", "slowloris").then_closes(),
        case("a connection with an endless head is closed", "slowloris")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            .then_closes(),
        case("a connection with half a request line is closed", "slowloris").sends("GE").then_closes(),
        case("half of the HTTP/2 preface is closed", "slowloris").sends("PRI * HTTP/2.0\r\n").then_closes(),
        case("a connection with endless empty lines is closed", "slowloris")
            .sends("\r\n\r\n\r\n")
            .then_closes(),
        case("an idle connection is closed", "RFC 9112, 9.5")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a")
            .then_closes(),
        case("the header timeout applies after a response as well", "slowloris")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HT")
            .passes("GET / HTTP/1.1\nhost: a")
            .then_closes(),
        case("a slow app is not affected by the header timeout", "the timeout is the head's")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app([crate::case::AppAction::Reads, crate::case::AppAction::Pauses])
            .app([crate::case::AppAction::Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())])
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(ok()),
        case("a slow body is not affected by the header timeout", "the timeout is the head's")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
            .step(ClientStep::Pauses)
            .sends("llo")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        case("a slow app after a short request is not a slow client", "the timeout is the head's")
            .sends("GET / HTTP/1.0\n\n")
            .app([crate::case::AppAction::Reads, crate::case::AppAction::Pauses])
            .app([crate::case::AppAction::Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())])
            .app_receives("GET / HTTP/1.1\nhost: {proxy}")
            .gets(ok())
            .then_closes(),
        case("an idle tunnel stays open", "the timeout is the head's")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
            .app([crate::case::AppAction::Reads])
            .app([crate::case::AppAction::Sends(
                b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_vec(),
            )])
            .app([
                crate::case::AppAction::ReadsBytes(b"ping".to_vec()),
                crate::case::AppAction::Sends(b"pong".to_vec()),
                crate::case::AppAction::Closes,
            ])
            .app_receives("GET / HTTP/1.1\nconnection: upgrade\nhost: a\nupgrade: x")
            .gets(response(101))
            .step(ClientStep::Pauses)
            .sends("ping")
            .gets_bytes("pong")
            .then_closes(),
    ];
    rows.into_iter().map(Case::with_short_header_timeout).chain(idle()).collect()
}

/// Load balancers keep idle connections for minutes (AWS and ingress-nginx 60 s, Google 600 s), and
/// send their next request on them.
fn idle() -> Vec<Case> {
    let rows = [
        case("an idle connection outlives the header timeout", "ingress-nginx#3099, conbench#1158")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a")
            .step(ClientStep::Pauses)
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
            .passes("POST / HTTP/1.1\ncontent-length: 2\nhost: a\n\nhi")
            .step(ClientStep::Pauses),
        case("a slow head on a connection that was idle is closed", "slowloris")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a")
            .step(ClientStep::Pauses)
            .sends("GET /2 HT")
            .then_closes(),
    ];
    rows.into_iter().map(Case::with_short_head).collect()
}
