//! gRPC calls that the proxy answers itself, or whose app fails: the status is in the trailers.

use crate::case::{self, AppAction, Case, ExpectedResponse, ok, response};
use crate::http2::Http2Action::{Closes, Reads, ReadsHead, Sends};
use crate::http2::code::*;
use crate::http2::{self, Frame, Http2Case, data, headers, request, reset};

const SOURCE: &str = "gRPC over HTTP/2: Responses; gRFC A6";
const SEEN: &str = "POST / HTTP/2\n:authority: a\ncontent-type: application/grpc\nte: trailers\n\nhello";

/// UNAVAILABLE as a frame of gRPC-Web, in base64.
const TEXT_TRAILERS: &str = concat!(
    "gAAAAERncnBjLXN0YXR1czoxNA0KZ3JwYy1tZXNzYWdlOnRoZSBhcHAgZGlkIG5vdCBjb21wbGV0ZSBp",
    "dHMgcmVzcG9uc2UNCg=="
);

/// The rows.
pub fn rows() -> Vec<Http2Case> {
    let refuses = || [Reads, Sends(vec![reset(1, REFUSED_STREAM)])];
    let refused = call("a call that the app refuses again and again is UNAVAILABLE, with a pause");
    let refused = (0..3).fold(refused.app(refuses()), |row, _| row.app(refuses()).app_receives(SEEN));
    let begins = || -> [Frame; 2] {
        [headers(1, &[(":status", "200"), ("content-type", "application/grpc")]), data(1, "half")]
    };
    vec![
        refused
            .gets(1, status("grpc-status: 14").with("grpc-retry-pushback-ms: 1000").without("retry-after: ")),
        call("a call whose app closes the connection before its response is UNAVAILABLE")
            .app([Reads, Closes])
            .gets(1, status("grpc-status: 14").without("grpc-retry-pushback-ms: ")),
        call("a call that the app resets before its response is INTERNAL")
            .app([Reads, Sends(vec![reset(1, INTERNAL_ERROR)])])
            .gets(1, status("grpc-status: 13").without("grpc-retry-pushback-ms: ")),
        reset_as("a call that the app resets with CANCEL is CANCELLED", CANCEL, "grpc-status: 1"),
        reset_as(
            "a call that the app resets with ENHANCE_YOUR_CALM is RESOURCE_EXHAUSTED",
            ENHANCE_YOUR_CALM,
            "grpc-status: 8",
        ),
        call("a call that the app refuses once is sent again")
            .app([Reads, Sends(vec![reset(1, REFUSED_STREAM)])])
            .app_receives(SEEN)
            .gets(1, ok()),
        http2::case("trailers arrive while the call still sends", "golang/go#80085")
            .sends([request(1, "POST", "/", &[("content-type", "application/grpc"), ("te", "trailers")])])
            .sends([data(1, "hello")])
            .app([ReadsHead, Sends(begins().to_vec())])
            .app([Sends(vec![headers(1, &[("grpc-status", "5")]).ending()])])
            .app_receives("POST / HTTP/2\n:authority: a\ncontent-type: application/grpc\nte: trailers")
            .gets(1, response(200).body("half").trailer("grpc-status: 5"))
            .sends([reset(1, CANCEL)]),
        http2::case("a malformed call is INTERNAL", SOURCE)
            .sends([request(1, "POST", "/", &[("content-type", "application/grpc"), ("host", "b")]).ending()])
            .gets(1, status("grpc-status: 13").without("grpc-retry-pushback-ms: ")),
        call("a call whose app closes the connection in its response ends with UNAVAILABLE")
            .app([Reads, Sends(begins().to_vec()), Closes])
            .gets(
                1,
                response(200)
                    .body("half")
                    .trailer("grpc-status: 14")
                    .trailer("grpc-message: the app did not complete its response"),
            ),
    ]
}

/// The rows of resets, which overtake what waits in a first proxy.
pub fn reset_rows() -> Vec<Http2Case> {
    let begins = headers(1, &[(":status", "200"), ("content-type", "application/grpc")]);
    vec![
        call("a call that the app resets in its response is reset with its code")
            .app([Reads, Sends(vec![begins, data(1, "half"), reset(1, ENHANCE_YOUR_CALM)])])
            .is_reset(1, ENHANCE_YOUR_CALM),
    ]
}

fn reset_as(name: &'static str, code: u32, gets: &'static str) -> Http2Case {
    call(name)
        .app([Reads, Sends(vec![reset(1, code)])])
        .gets(1, status(gets).with("content-type: application/grpc"))
}

fn call(name: &'static str) -> Http2Case {
    http2::case(name, SOURCE)
        .sends([
            request(1, "POST", "/", &[("content-type", "application/grpc"), ("te", "trailers")]),
            data(1, "hello").ending(),
        ])
        .app_receives(SEEN)
}

/// The rows of gRPC-Web over HTTP/1.1.
pub fn web_rows() -> Vec<Case> {
    let call = |name, content: &str| {
        let head =
            format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: {content}\r\nContent-Length: 5\r\n\r\n");
        case::case(name, "gRPC-Web").sends(format!("{head}hello")).app([AppAction::Reads]).app_receives(
            format!("POST / HTTP/1.1\ncontent-length: 5\ncontent-type: {content}\nhost: a\n\nhello"),
        )
    };
    let (web, text) = ("application/grpc-web+proto", "application/grpc-web-text");
    let begins_as = |content: &str, body: &str| {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {content}\r\ntransfer-encoding: chunked\r\n\r\n");
        AppAction::Sends(format!("{head}{:x}\r\n{body}\r\n", body.len()).into_bytes())
    };
    let begins = |body: &str| begins_as(web, body);
    let coded = begins_as(&format!("{web}\r\ncontent-encoding: gzip"), "hello");
    let trailers = "grpc-status:14\r\ngrpc-message:the app did not complete its response\r\n";
    vec![
        call("a call of gRPC-Web whose app closes the connection has a status", web)
            .app([AppAction::Closes])
            .gets(status("grpc-status: 14").with("content-type: application/grpc-web").body("")),
        call("the content type of a call has any case", "APPLICATION/GRPC-WEB;a=b")
            .app([AppAction::Closes])
            .gets(status("grpc-status: 14").with("content-type: application/grpc-web").body("")),
        call("a call of gRPC-Web in text whose app closes the connection has a status", text)
            .app([AppAction::Closes])
            .gets(status("grpc-status: 14").with("content-type: application/grpc-web-text").body("")),
        call("a call of gRPC-Web whose app closes the connection in its response ends with a status", web)
            .app([begins("\0\0\0\0\x02hi"), AppAction::Closes])
            .gets(
                response(200)
                    .body([b"\0\0\0\0\x02hi\x80\0\0\0\x44".as_slice(), trailers.as_bytes()].concat()),
            ),
        call("a call of gRPC-Web whose app closes the connection in a message is cut", web)
            .app([begins("\0\0\0\0\x05hi"), AppAction::Closes])
            .gets(response(200).body("\0\0\0\0\x05hi").cut())
            .then_closes(),
        call("a call of gRPC-Web with a coded body is cut if the app closes the connection", web)
            .app([coded, AppAction::Closes])
            .gets(response(200).body("hello").cut())
            .then_closes(),
        call("a call of gRPC-Web in text ends with a status in text if the app closes the connection", text)
            .app([begins_as(text, "AAAAAAJoaQ=="), AppAction::Closes])
            .gets(response(200).body(format!("AAAAAAJoaQ=={TEXT_TRAILERS}"))),
        call("a call of gRPC-Web in text is cut if the app closes the connection in a message", text)
            .app([begins_as(text, "AAAAAAJo"), AppAction::Closes])
            .gets(response(200).body("AAAAAAJo").cut())
            .then_closes(),
    ]
}

/// A response of trailers alone.
fn status(field: &'static str) -> ExpectedResponse {
    response(200).with(field)
}
