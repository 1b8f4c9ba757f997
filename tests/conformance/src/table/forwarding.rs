//! X-Forwarded-*, Forwarded, and the internal headers of Rouse's components.

use crate::case::{Case, ExpectedRequest, case, observed, ok, problem};
use crate::http2::{self, Http2Case, headers};

/// The rows.
pub fn rows() -> Vec<Case> {
    [forwarded(), ours()].concat()
}

/// The rows of HTTP/2.
pub fn http2_rows() -> Vec<Http2Case> {
    let row = |name, scheme: &str, more: &[(&str, &str)]| {
        let mut fields = vec![(":method", "GET"), (":scheme", scheme), (":authority", "a"), (":path", "/")];
        fields.extend(more);
        http2::case(name, "RFC 9113, 8.3.1; grpc-go behind a proxy that ends TLS")
            .sends([headers(1, &fields).ending()])
            .gets(1, ok())
    };
    let seen = || observed("GET / HTTP/2\n:authority: a");
    vec![
        row("the scheme https is the forwarded protocol", "https", &[])
            .app_receives_request(seen().with("x-forwarded-proto: https").with("x-forwarded-for: 127.0.0.1")),
        row("the scheme http is the forwarded protocol", "http", &[])
            .app_receives_request(seen().with("x-forwarded-proto: http")),
        row(
            "X-Forwarded-Proto of an earlier proxy is preserved beside the scheme",
            "http",
            &[("x-forwarded-proto", "https")],
        )
        .app_receives_request(seen().with("x-forwarded-proto: https")),
    ]
}

fn row(name: &'static str, source: &'static str, lines: &str, receives: ExpectedRequest) -> Case {
    case(name, source)
        .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
        .app_receives_request(receives)
        .gets(ok())
}

fn plain() -> ExpectedRequest {
    observed("GET / HTTP/1.1\nhost: a")
}

fn forwarded() -> Vec<Case> {
    vec![
        row(
            "the client's address is forwarded",
            "apps rely on it",
            "",
            plain().with("x-forwarded-for: 127.0.0.1"),
        ),
        row(
            "the client's address is appended to X-Forwarded-For in one line",
            "apps read the first line only",
            "X-Forwarded-For: 10.1.2.3\r\nX-Forwarded-For: 10.4.5.6, 10.7.8.9\r\n",
            plain().with("x-forwarded-for: 10.1.2.3, 10.4.5.6, 10.7.8.9, 127.0.0.1"),
        ),
        row(
            "an invalid address in X-Forwarded-For is forwarded",
            "apps rely on it",
            "X-Forwarded-For: unknown\r\n",
            plain().with("x-forwarded-for: unknown, 127.0.0.1"),
        ),
        row(
            "an empty X-Forwarded-For is ignored",
            "RFC 9110, 5.6.1",
            "X-Forwarded-For:\r\n",
            plain().with("x-forwarded-for: 127.0.0.1"),
        ),
        case("a request that has passed more than 100 proxies goes round in a loop", "RFC 9110, 7.6.3")
            .sends(format!(
                "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1{}\r\n\r\n",
                ", 10.0.0.1".repeat(100),
            ))
            .gets(problem(508))
            .then_closes(),
        row("the protocol is forwarded", "apps rely on it", "", plain().with("x-forwarded-proto: http")),
        row(
            "X-Forwarded-Proto of an earlier proxy is preserved",
            "apps rely on it",
            "X-Forwarded-Proto: https\r\n",
            plain().with("x-forwarded-proto: https"),
        ),
        row(
            "an empty X-Forwarded-Proto is replaced",
            "RFC 9110, 5.6.1",
            "X-Forwarded-Proto:\r\n",
            plain().with("x-forwarded-proto: http"),
        ),
        row(
            "X-Forwarded-Host is preserved",
            "apps rely on it",
            "X-Forwarded-Host: public.example\r\n",
            observed("GET / HTTP/1.1\nhost: a\nx-forwarded-host: public.example"),
        ),
        row(
            "Forwarded is not added",
            "RFC 7239, 4; a choice: Knative does (F1)",
            "",
            plain().without("forwarded: "),
        ),
        row(
            "the proxy appends to an existing Forwarded",
            "RFC 7239, 4",
            "Forwarded: for=10.1.2.3;proto=https\r\n",
            observed("GET / HTTP/1.1\nforwarded: for=10.1.2.3;proto=https, for=127.0.0.1\nhost: a"),
        ),
        row(
            "a Forwarded with an open quote, which would hide the proxy's entry, is dropped",
            "RFC 7239, 4; RFC 9110, 5.6.4",
            "Forwarded: for=\"10.1.2.3\r\n",
            observed("GET / HTTP/1.1\nforwarded: for=127.0.0.1\nhost: a"),
        ),
        row(
            "several lines of Forwarded are merged",
            "RFC 7239, 7.1",
            "Forwarded: for=10.1.2.3\r\nForwarded: for=\"[::1]\"\r\n",
            observed("GET / HTTP/1.1\nforwarded: for=10.1.2.3, for=\"[::1]\", for=127.0.0.1\nhost: a"),
        ),
        row(
            "the trace context is forwarded unchanged",
            "W3C Trace Context, 2.3 and 3.3: a proxy that takes no part in a trace",
            concat!(
                "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n",
                "tracestate: rojo=00f067aa0ba902b7\r\ntracestate: congo=t61rcWkgMzE,  a@b=x\r\n",
            ),
            observed(concat!(
                "GET / HTTP/1.1\nhost: a\n",
                "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
                "tracestate: rojo=00f067aa0ba902b7\ntracestate: congo=t61rcWkgMzE,  a@b=x",
            )),
        ),
        row(
            "a trace context of another version is forwarded unchanged",
            "W3C Trace Context, 4",
            "traceparent: cc-00-what-the-future-brings\r\n",
            observed("GET / HTTP/1.1\nhost: a\ntraceparent: cc-00-what-the-future-brings"),
        ),
        row("Via is not added", "RFC 9110, 7.6.3; a choice, nginx's too", "", plain().without("via: ")),
        row(
            "the client's Host is forwarded",
            "KEDA http-add-on#331, #764",
            "",
            plain().without("x-original-host: "),
        ),
    ]
}

fn ours() -> Vec<Case> {
    let probe = |name, value: &str| {
        case(name, "contract: probes")
            .sends(format!("GET / HTTP/1.1\r\nHost: a\r\nrouse-probe: {value}\r\n\r\n"))
    };
    vec![
        row(
            "a client cannot set the proxied header",
            "contract: headers",
            "rouse-proxied: evil\r\n",
            plain().without("rouse-proxied: evil"),
        ),
        row(
            "a client cannot set the workload header",
            "contract: headers",
            "rouse-workload: shop/evil\r\n",
            plain(),
        ),
        probe("a probe for an unknown component is rejected", "unknown").gets(problem(400)),
        probe("an empty probe is rejected", "").gets(problem(400)),
        probe("a probe may have any path", "unknown").sends("").gets(problem(400)),
    ]
}
