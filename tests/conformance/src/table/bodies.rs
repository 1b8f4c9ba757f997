//! Bodies: on odd methods, long ones, ones that are cut, and who speaks first.

use crate::case::Act::{EndsHere, Finishes, ReadsBytes, ReadsHead, Sends};
use crate::case::{Case, Step, answer, case, ok};

/// The rows.
pub fn rows() -> Vec<Case> {
    [odd_methods(), long(), cut(), expectations(), early_answers()].concat()
}

fn odd_methods() -> Vec<Case> {
    let mut rows = Vec::new();
    for (sized, chunked, method) in [
        ("a sized body of GET passes", "a chunked body of GET passes", "GET"),
        ("a sized body of DELETE passes", "a chunked body of DELETE passes", "DELETE"),
        ("a sized body of OPTIONS passes", "a chunked body of OPTIONS passes", "OPTIONS"),
        ("a sized body of a method that nobody knows passes", "a chunked one as well", "SEARCH"),
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
        case("a body of HEAD passes", "RFC 9112, 6")
            .sends("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .app_sees("HEAD / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .app_answers("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            .gets(answer(200).to_head().with("content-length: 2")),
    );
    rows
}

fn long() -> Vec<Case> {
    let length = 300_000;
    let long = "b".repeat(length);
    vec![
        case("a long body passes", "RFC 9112, 6.2")
            .sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{long}"))
            .passes(format!("POST / HTTP/1.1\ncontent-length: {length}\nhost: a\n\n[{length} x b]")),
        case("a long chunk passes", "RFC 9112, 7.1")
            .sends(format!(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{long}\r\n0\r\n\r\n"
            ))
            .passes(format!("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[{length} x b]")),
        case("a long response passes", "RFC 9112, 6.2")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .app_answers(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{long}"))
            .app_sees("GET / HTTP/1.1\nhost: a")
            .gets(answer(200).with("content-length: 300000").body(&long)),
        case("a body comes to the app as it is sent", "knative/serving: streaming uploads")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            .app([ReadsHead, Sends(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n1\r\n".to_vec())])
            .app([ReadsBytes(b"2\r\nab\r\n".to_vec()), Sends(b"1\r\n2\r\n0\r\n\r\n".to_vec())])
            .app([ReadsBytes(b"0\r\n\r\n".to_vec())])
            .step(Step::AwaitsApp(1))
            .sends("2\r\nab\r\n")
            .app_sees("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[unread]")
            .gets(answer(200).body("12"))
            .sends("0\r\n\r\n"),
    ]
}

fn cut() -> Vec<Case> {
    vec![
        case("a sized body that is cut is cut for the app", "RFC 9112, 8")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            .step(Step::AwaitsProxy)
            .step(Step::HangsUp)
            .step(Step::AwaitsApp(1))
            .app_sees("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\nhello[cut]"),
        case("a chunked body that is cut is cut for the app", "RFC 9112, 8")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            .step(Step::AwaitsProxy)
            .step(Step::HangsUp)
            .step(Step::AwaitsApp(1))
            .app_sees("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\nhello[cut]"),
        case("a body that ends early is refused to whoever still listens", "RFC 9112, 8")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            .step(Step::Finishes)
            .app_may_see("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\nhello[cut]")
            .is_refused(400),
        case("a bad chunk after good ones cuts the body for the app", "RFC 9112, 7.1")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            .app([ReadsHead, ReadsBytes(b"5\r\nhello\r\n".to_vec()), EndsHere])
            .step(Step::AwaitsApp(1))
            .sends("x\r\n")
            .app_sees("POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n[unread]")
            .is_refused(400),
        case("a head that is cut is nothing", "RFC 9112, 8")
            .sends("GET / HTTP/1.1\r\nHost: a\r\n")
            .step(Step::HangsUp),
    ]
}

fn expectations() -> Vec<Case> {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let seen = "POST / HTTP/1.1\ncontent-length: 5\nexpect: 100-continue\nhost: a";
    let ok_bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    vec![
        case("who waits for leave gets it from us", "RFC 9110, 10.1.1; nginx and Envoy do so")
            .sends(post)
            .gets(answer(100))
            .sends("hello")
            .passes(format!("{seen}\n\nhello")),
        case("the app's own leave is not passed on again", "RFC 9110, 15.2.1")
            .sends(post)
            .app([ReadsHead, Sends(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())])
            .app([ReadsBytes(b"hello".to_vec()), Sends(ok_bytes.to_vec())])
            .gets(answer(100))
            .sends("hello")
            .app_sees(format!("{seen}\n\n[unread]"))
            .gets(ok()),
        case("the app may refuse the body", "RFC 9110, 10.1.1")
            .sends(post)
            .app([
                ReadsHead,
                Sends(b"HTTP/1.1 417 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec()),
            ])
            .app([Finishes])
            .gets(answer(100))
            .app_sees(format!("{seen}\n\n[unread]"))
            .gets(answer(417))
            .then_closes(),
        case("who does not wait is not told to go on", "RFC 9110, 10.1.1")
            .sends(format!("{post}hello"))
            .gets(answer(100))
            .passes(format!("{seen}\n\nhello")),
        case("who has no body needs no leave", "RFC 9110, 10.1.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")
            .passes("GET / HTTP/1.1\nexpect: 100-continue\nhost: a"),
        case("HTTP/1.0 has no expectations", "RFC 9110, 10.1.1")
            .sends("POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
            .passes("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\nhello")
            .then_closes(),
        case("an expectation that nobody knows is the app's to refuse", "RFC 9110, 10.1.1")
            .sends("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n")
            .passes("GET / HTTP/1.1\nexpect: tea\nhost: a"),
        case("what is refused by its head is refused without leave", "RFC 9110, 10.1.1")
            .sends("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            .is_refused(400),
    ]
}

fn early_answers() -> Vec<Case> {
    let too_large = b"HTTP/1.1 413 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
    vec![
        case("an answer before the end of the body comes at once", "RFC 9112, 9.3; knative/serving#14818")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            .app([ReadsHead, Sends(too_large.to_vec()), Finishes])
            .app_sees("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\n[unread]")
            .gets(answer(413).body("no"))
            .then_closes(),
        case("an early answer to a body that has come whole leaves the connection open", "RFC 9112, 9.3")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
            .app([ReadsHead, Sends(too_large.to_vec()), Finishes])
            .app_sees("POST / HTTP/1.1\ncontent-length: 5\nhost: a\n\n[unread]")
            .gets(answer(413).body("no")),
        case("an app may answer and go on reading", "full duplex; knative/serving's own setting")
            .sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
            .app([ReadsHead, Sends(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())])
            .app([ReadsBytes(b"helloworld".to_vec())])
            .app_sees("POST / HTTP/1.1\ncontent-length: 10\nhost: a\n\n[unread]")
            .gets(ok())
            .sends("world"),
    ]
}
