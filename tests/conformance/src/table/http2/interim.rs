//! Interim responses over HTTP/2: 100 Continue, which each hop sends itself, and all others, which
//! are passed on.

use crate::case::{ok, problem};
use crate::http2::Http2Action::{Reads, ReadsHead, Sends};
use crate::http2::{Http2Case, case, data, headers, request};

/// The rows.
pub(super) fn rows() -> Vec<Http2Case> {
    let expects = || request(1, "POST", "/", &[("content-length", "5"), ("expect", "100-continue")]);
    let seen = "POST / HTTP/2\n:authority: a\ncontent-length: 5\nexpect: 100-continue";
    let interim = |status| headers(1, &[(":status", status)]);
    vec![
        case("a client that waits for 100 Continue gets it", "RFC 9110, 10.1.1; jetty.project#902, h2o#3316")
            .sends([expects()])
            .gets_interim(1, &[(":status", "100")])
            .sends([data(1, "hello").ending()])
            .app_receives(format!("{seen}\n\nhello"))
            .gets(1, ok()),
        case("the app's 100 Continue is not forwarded a second time", "RFC 9110, 15.2.1")
            .sends([expects()])
            .app([ReadsHead, Sends(vec![interim("100")])])
            .app([Sends(vec![interim("200"), data(1, "ok").ending()])])
            .gets_interim(1, &[(":status", "100")])
            .sends([data(1, "hello").ending()])
            .app_receives(seen)
            .gets(1, ok()),
        case("a rejected head gets no 100 Continue", "RFC 9110, 10.1.1")
            .sends([request(1, "POST", "/", &[("host", "b"), ("expect", "100-continue")])])
            .gets(1, problem(400)),
        case("an expectation without a body gets no 100 Continue", "RFC 9110, 10.1.1")
            .sends([request(1, "GET", "/", &[("expect", "100-continue")]).ending()])
            .app_receives("GET / HTTP/2\n:authority: a\nexpect: 100-continue")
            .gets(1, ok()),
        case("an interim response arrives before the final one is sent", "RFC 9110, 15.2; RFC 8297")
            .sends([request(1, "POST", "/", &[])])
            .app([ReadsHead, Sends(vec![headers(1, &[(":status", "103"), ("link", "</a.css>")])])])
            .gets_interim(1, &[(":status", "103"), ("link", "</a.css>")])
            .sends([data(1, "hello").ending()])
            .app([Sends(vec![interim("102"), interim("200"), data(1, "ok").ending()])])
            .app_receives("POST / HTTP/2\n:authority: a")
            .gets_interim(1, &[(":status", "102")])
            .gets(1, ok()),
        case("an app that does not end its interim responses gets a few forwarded", "memory is bounded")
            .sends([request(1, "GET", "/", &[]).ending()])
            .app([Reads, Sends((0..40).map(|_| interim("102")).collect())])
            .app([Sends(vec![interim("200"), data(1, "ok").ending()])])
            .app_receives("GET / HTTP/2\n:authority: a")
            .gets_interims(1, 16, &[(":status", "102")])
            .gets(1, ok()),
    ]
}
