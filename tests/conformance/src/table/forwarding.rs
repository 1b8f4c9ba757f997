//! Who asked: X-Forwarded-*, Forwarded, and the headers by which our own parts speak to each other.

use crate::case::{Case, Seen, case, ok, problem, seen};

/// The rows.
pub fn rows() -> Vec<Case> {
    [forwarded(), ours()].concat()
}

fn row(name: &'static str, source: &'static str, lines: &str, sees: Seen) -> Case {
    case(name, source)
        .sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
        .app_sees_just(sees)
        .gets(ok())
}

fn plain() -> Seen {
    seen("GET / HTTP/1.1\nhost: a")
}

fn forwarded() -> Vec<Case> {
    vec![
        row(
            "the caller's address is told",
            "what apps rely on",
            "",
            plain().with("x-forwarded-for: 127.0.0.1"),
        ),
        row(
            "it joins those before, in one line",
            "apps read the first line only",
            "X-Forwarded-For: 10.1.2.3\r\nX-Forwarded-For: 10.4.5.6, 10.7.8.9\r\n",
            plain().with("x-forwarded-for: 10.1.2.3, 10.4.5.6, 10.7.8.9, 127.0.0.1"),
        ),
        row(
            "what is no address is passed on: it was not ours to judge",
            "what apps rely on",
            "X-Forwarded-For: unknown\r\n",
            plain().with("x-forwarded-for: unknown, 127.0.0.1"),
        ),
        row(
            "an empty line of it is none",
            "RFC 9110, 5.6.1",
            "X-Forwarded-For:\r\n",
            plain().with("x-forwarded-for: 127.0.0.1"),
        ),
        row("the protocol is told", "what apps rely on", "", plain().with("x-forwarded-proto: http")),
        row(
            "the protocol that somebody before us has seen stays",
            "what apps rely on",
            "X-Forwarded-Proto: https\r\n",
            plain().with("x-forwarded-proto: https"),
        ),
        row(
            "X-Forwarded-Host stays",
            "what apps rely on",
            "X-Forwarded-Host: public.example\r\n",
            seen("GET / HTTP/1.1\nhost: a\nx-forwarded-host: public.example"),
        ),
        row(
            "Forwarded is not made up",
            "RFC 7239, 4; a choice: Knative does (F1)",
            "",
            plain().without("forwarded: "),
        ),
        row(
            "Forwarded that is there gets our part, so that its last entry is true",
            "RFC 7239, 4",
            "Forwarded: for=10.1.2.3;proto=https\r\n",
            seen("GET / HTTP/1.1\nforwarded: for=10.1.2.3;proto=https, for=127.0.0.1\nhost: a"),
        ),
        row(
            "several lines of Forwarded become one",
            "RFC 7239, 7.1",
            "Forwarded: for=10.1.2.3\r\nForwarded: for=\"[::1]\"\r\n",
            seen("GET / HTTP/1.1\nforwarded: for=10.1.2.3, for=\"[::1]\", for=127.0.0.1\nhost: a"),
        ),
        row(
            "Via is not added: the app shall see what was sent",
            "RFC 9110, 7.6.3; a choice, nginx's too",
            "",
            plain().without("via: "),
        ),
        row(
            "the Host is the caller's",
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
            "a caller does not say who proxied",
            "contract: headers",
            "rouse-proxied: evil\r\n",
            plain().without("rouse-proxied: evil"),
        ),
        row(
            "a caller does not name a workload",
            "contract: headers",
            "rouse-workload: shop/evil\r\n",
            plain(),
        ),
        probe("a probe for nobody is refused", "somebody").gets(problem(400)),
        probe("an empty probe is refused", "").gets(problem(400)),
        probe("a probe does not care for its path", "somebody").sends("").gets(problem(400)),
    ]
}
