//! Callers that take their time.

use crate::case::{Case, Step, answer, case, ok};

/// The rows, with a proxy that gives a head 300 ms.
pub fn rows() -> Vec<Case> {
    let rows = vec![
        case("a connection that brings nothing is closed", "slowloris").then_closes(),
        case("a head that does not end is closed", "slowloris")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            .then_closes(),
        case("half a request line is closed", "slowloris").sends("GE").then_closes(),
        case("half of the HTTP/2 preface is closed", "slowloris").sends("PRI * HTTP/2.0\r\n").then_closes(),
        case("empty lines without end are closed", "slowloris").sends("\r\n\r\n\r\n").then_closes(),
        case("a connection is closed when it rests for too long", "RFC 9112, 9.5")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .passes("GET / HTTP/1.1\nhost: a")
            .then_closes(),
        case("a head that follows an answer is timed as well", "slowloris")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HT")
            .passes("GET / HTTP/1.1\nhost: a")
            .then_closes(),
        case("an app may take its time", "the timeout is the head's")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app([crate::case::Act::Reads, crate::case::Act::Rests])
            .app([crate::case::Act::Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())])
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(ok()),
        case("a body may take its time", "the timeout is the head's")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
            .step(Step::Rests)
            .sends("llo")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello"),
        case("a short request and a slow app are no slow caller", "the timeout is the head's")
            .sends("GET / HTTP/1.0\n\n")
            .app([crate::case::Act::Reads, crate::case::Act::Rests])
            .app([crate::case::Act::Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())])
            .app_sees("GET / HTTP/1.1\nhost: {proxy}")
            .gets(ok())
            .then_closes(),
        case("a tunnel may rest", "the timeout is the head's")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
            .app([crate::case::Act::Reads])
            .app([crate::case::Act::Sends(
                b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_vec(),
            )])
            .app([
                crate::case::Act::ReadsBytes(b"ping".to_vec()),
                crate::case::Act::Sends(b"pong".to_vec()),
                crate::case::Act::Closes,
            ])
            .app_sees("GET / HTTP/1.1\nconnection: upgrade\nhost: a\nupgrade: x")
            .gets(answer(101))
            .step(Step::Rests)
            .sends("ping")
            .gets_bytes("pong")
            .then_closes(),
    ];
    rows.into_iter().map(Case::in_a_hurry).collect()
}
