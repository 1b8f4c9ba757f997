//! Bodies: with unusual methods, long ones, incomplete ones, and 100 Continue.

use crate::case::AppAction::{Closes, ClosesWrite, ExpectsEnd, Reads, ReadsBytes, ReadsHead, Sends};
use crate::case::{Case, ClientStep, case, ok, problem, response};

/// The rows.
pub fn rows() -> Vec<Case> {
    [odd_methods(), long(), cut(), expectations(), early_answers()].concat()
}

fn odd_methods() -> Vec<Case> {
    let mut rows = Vec::new();
    for (sized, chunked, method) in [
        ("a sized body of GET is forwarded", "a chunked body of GET is forwarded", "GET"),
        ("a sized body of DELETE is forwarded", "a chunked body of DELETE is forwarded", "DELETE"),
        ("a sized body of OPTIONS is forwarded", "a chunked body of OPTIONS is forwarded", "OPTIONS"),
        (
            "a sized body of an unknown method is forwarded",
            "a chunked body of an unknown method is forwarded",
            "SEARCH",
        ),
    ] {
        rows.push(
            case(sized, "RFC 9112, 6; Elasticsearch's GET has one")
                .sends(format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"))
                .passes(format!("{method} / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")),
        );
        rows.push(
            case(chunked, "RFC 9112, 6")
                .sends(format!(
                    "{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                ))
                .passes(format!("{method} / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello")),
        );
    }
    rows.push(
        case("a body of HEAD is forwarded", "RFC 9112, 6")
            .sends("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .app_receives("HEAD / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .app_responds("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            .gets(response(200).to_head().with("content-length: 2")),
    );
    rows
}

fn long() -> Vec<Case> {
    let length = 300_000;
    let long = "b".repeat(length);
    vec![
        case("a long body is forwarded", "RFC 9112, 6.2")
            .sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{long}"))
            .passes(format!("POST / HTTP/1.1\ncontent-length: {length}\nhost: a\n\n[{length} x b]")),
        case("a long chunk is forwarded", "RFC 9112, 7.1")
            .sends(format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{long}\r\n0\r\n\r\n"
            ))
            .passes(format!("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[{length} x b]")),
        case("a long response is forwarded", "RFC 9112, 6.2")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_responds(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{long}"))
            .app_receives("GET / HTTP/1.1\nhost: a")
            .gets(response(200).with("content-length: 300000").body(&long)),
        case("a body is forwarded as it is received", "knative/serving: streaming uploads")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            .app([ReadsHead, Sends(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n1\r\n".to_vec())])
            .app([ReadsBytes(b"2\r\nab\r\n".to_vec()), Sends(b"1\r\n2\r\n0\r\n\r\n".to_vec())])
            .app([ReadsBytes(b"0\r\n\r\n".to_vec())])
            .step(ClientStep::AwaitsApp(1))
            .sends("2\r\nab\r\n")
            .app_receives("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[unread]")
            .gets(response(200).body("12"))
            .sends("0\r\n\r\n"),
    ]
}

fn cut() -> Vec<Case> {
    vec![
        case("a sized body that ends early is cut for the app", "RFC 9112, 8")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            .step(ClientStep::AwaitsProxy)
            .step(ClientStep::Disconnects)
            .step(ClientStep::AwaitsApp(1))
            .app_receives("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\nhello[cut]"),
        case("a chunked body that ends early is cut for the app", "RFC 9112, 8")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            .step(ClientStep::AwaitsProxy)
            .step(ClientStep::Disconnects)
            .step(ClientStep::AwaitsApp(1))
            .app_receives("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello[cut]"),
        case("a body that ends early is rejected while the client still reads", "RFC 9112, 8")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            .step(ClientStep::ClosesWrite)
            .app_may_receive("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\nhello[cut]")
            .is_rejected(400),
        case("a bad chunk after good ones cuts the body for the app", "RFC 9112, 7.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            .app([ReadsHead, ReadsBytes(b"5\r\nhello\r\n".to_vec()), ExpectsEnd])
            .step(ClientStep::AwaitsApp(1))
            .sends("x\r\n")
            .app_receives("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[unread]")
            .is_rejected(400),
        case("an incomplete head is not forwarded", "RFC 9112, 8")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n")
            .step(ClientStep::Disconnects),
    ]
}

fn expectations() -> Vec<Case> {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let observed = "POST / HTTP/1.1\ncontent-length: 5\nexpect: 100-continue\nhost: a";
    let ok_bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    vec![
        case(
            "the proxy sends 100 Continue to a client that expects it",
            "RFC 9110, 10.1.1; nginx and Envoy do so",
        )
        .sends(post)
        .gets(response(100))
        .sends("hello")
        .passes(format!("{observed}\n\nhello")),
        case("the app's 100 Continue is not forwarded a second time", "RFC 9110, 15.2.1")
            .sends(post)
            .app([ReadsHead, Sends(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())])
            .app([ReadsBytes(b"hello".to_vec()), Sends(ok_bytes.to_vec())])
            .gets(response(100))
            .sends("hello")
            .app_receives(format!("{observed}\n\n[unread]"))
            .gets(ok()),
        case("the app may reject the body before 100 Continue", "RFC 9110, 10.1.1")
            .sends(post)
            .app([
                ReadsHead,
                Sends(b"HTTP/1.1 417 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec()),
            ])
            .app([ClosesWrite])
            .gets(response(100))
            .app_receives(format!("{observed}\n\n[unread]"))
            .gets(response(417))
            .then_closes(),
        case("a client that sends its body at once gets no 100 Continue", "RFC 9110, 10.1.1")
            .sends(format!("{post}hello"))
            .gets(response(100))
            .passes(format!("{observed}\n\nhello")),
        case("an expectation without a body gets no 100 Continue", "RFC 9110, 10.1.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")
            .passes("GET / HTTP/1.1\nexpect: 100-continue\nhost: a"),
        case("an expectation of HTTP/1.0 is ignored", "RFC 9110, 10.1.1")
            .sends("POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .then_closes(),
        case("an unknown expectation is forwarded to the app", "RFC 9110, 10.1.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n")
            .passes("GET / HTTP/1.1\nexpect: tea\nhost: a"),
        case("a rejected head gets no 100 Continue", "RFC 9110, 10.1.1")
            .sends("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            .is_rejected(400),
    ]
}

fn early_answers() -> Vec<Case> {
    let large_head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n";
    let large_part = "b".repeat(200_000);
    let too_large = b"HTTP/1.1 413 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
    vec![
        case(
            "a response before the end of the body is forwarded at once",
            "RFC 9112, 9.3; knative/serving#14818",
        )
        .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
        .app([ReadsHead, Sends(too_large.to_vec()), ClosesWrite])
        .app_receives("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\n[unread]")
        .gets(response(413).body("no"))
        .then_closes(),
        case("a client in the middle of a large upload reads an early response", "RFC 9112, 9.6; hyper#3078")
            .sends(large_head)
            .app([ReadsHead, Sends(too_large.to_vec()), Closes])
            .step(ClientStep::AwaitsApp(1))
            .sends(&large_part)
            .app_receives("POST / HTTP/1.1\ncontent-length: 9000000\nhost: a\n\n[unread]")
            .gets(response(413).body("no"))
            .sends(&large_part)
            .then_closes(),
        case("a client in the middle of a large upload reads a rejection", "RFC 9112, 9.6")
            .sends("POST / HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n")
            .sends(&large_part)
            .gets(problem(400).with("connection: close"))
            .sends(&large_part)
            .then_closes(),
        case("a client in the middle of a large chunked upload reads a rejection", "RFC 9112, 9.6")
            .sends("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\n")
            .sends(&large_part)
            .gets(problem(400).with("connection: close"))
            .sends(&large_part)
            .then_closes(),
        case("a client in the middle of a head that is too large reads the rejection", "RFC 9112, 9.6")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nX: ")
            .sends(&large_part)
            .gets_parser_rejection(431)
            .sends(&large_part)
            .then_closes(),
        case("a rejected small body leaves the connection open", "RFC 9112, 9.3")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .app([Reads, Closes])
            .app_receives("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .gets(problem(502).without("connection: ")),
        case("an early response to a complete body leaves the connection open", "RFC 9112, 9.3")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .app([ReadsHead, Sends(too_large.to_vec()), ClosesWrite])
            .app_receives("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\n[unread]")
            .gets(response(413).body("no")),
        case("an app may respond and continue to read", "full duplex; knative/serving's own setting")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            .app([ReadsHead, Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())])
            .app([ReadsBytes(b"helloworld".to_vec())])
            .app_receives("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\n[unread]")
            .gets(ok())
            .sends("world"),
    ]
}
