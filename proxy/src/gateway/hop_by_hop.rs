//! Hop-by-hop headers: headers of one connection, which a proxy must not forward (RFC 9110, 7.6.1).

use http::Version;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http_client::headers::{entries, lists};

use super::forwarded::{X_FORWARDED_FOR, X_FORWARDED_PROTO};

/// Removed whether `Connection` lists them or not. Not `Trailer`: without the announcement HTTP/1.1
/// peers drop the trailers. Not `Transfer-Encoding`: without it the body of a GET would be lost.
///
/// Texts, because an array of `HeaderName` is built anew wherever it is used.
const ALWAYS: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "upgrade",
    "http2-settings",
];

/// Kept even if `Connection` lists them: they define framing, routing and the client's address.
/// `TE` has its own rule.
const PROTECTED: [HeaderName; 7] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::FORWARDED,
    X_FORWARDED_FOR,
    X_FORWARDED_PROTO,
];

/// Removes all hop-by-hop headers.
pub(super) fn strip(headers: &mut HeaderMap) {
    // Most messages have none or `TE` alone, and one pass over their names is cheaper than a lookup
    // for each.
    let (mut has_any, mut has_te) = (false, false);
    for name in headers.keys() {
        has_any |= ALWAYS.contains(&name.as_str());
        has_te |= *name == header::TE;
    }
    if has_any {
        for name in named_by_connection(headers) {
            headers.remove(name);
        }
        for name in ALWAYS {
            headers.remove(name);
        }
    }
    if has_te {
        strip_te(headers);
    }
}

/// The headers that `Connection` lists. Usually empty, hence without an allocation.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    entries(headers, header::CONNECTION)
        .filter(|name| {
            !["close", "keep-alive", "upgrade"].iter().any(|token| name.eq_ignore_ascii_case(token))
        })
        .filter_map(|name| name.parse().ok())
        .filter(|name| !PROTECTED.contains(name))
        .collect()
}

/// Keeps `TE: trailers`, a property of the client itself that gRPC requires. Other values concern
/// the connection.
fn strip_te(headers: &mut HeaderMap) {
    if lists(headers, header::TE, "trailers") {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    } else {
        headers.remove(header::TE);
    }
}

/// The `Upgrade` header of a request that may switch its connection.
///
/// h2c is excluded: it is obsolete (RFC 9113, 3.1), and requests within it would bypass the proxy.
pub(super) fn upgrade(version: Version, headers: &HeaderMap) -> Option<&HeaderValue> {
    if version != Version::HTTP_11 {
        return None;
    }
    let protocol = headers.get(header::UPGRADE)?;
    let is_http = |name: &str| {
        let name = name.as_bytes();
        [b"h2".as_slice(), b"http"]
            .iter()
            .any(|http| name.get(..http.len()).is_some_and(|start| start.eq_ignore_ascii_case(http)))
    };
    let requested =
        lists(headers, header::CONNECTION, "upgrade") && !entries(headers, header::UPGRADE).any(is_http);
    requested.then_some(protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &'static str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn removes_headers_that_connection_lists() {
        let mut map = headers(&[
            ("connection", "close, X-Once, host"),
            ("x-once", "1"),
            ("host", "a"),
            ("x-stays", "2"),
        ]);
        map.append("connection", HeaderValue::from_static("x-twice"));
        map.insert("x-twice", HeaderValue::from_static("3"));
        strip(&mut map);
        assert_eq!(map, headers(&[("host", "a"), ("x-stays", "2")]));
    }

    #[test]
    fn keeps_te_trailers_and_trailer() {
        let mut map =
            headers(&[("te", "gzip, Trailers;q=1"), ("trailer", "grpc-status"), ("connection", "te")]);
        strip(&mut map);
        assert_eq!(map, headers(&[("te", "trailers"), ("trailer", "grpc-status")]));
        // Without any other such header, as in requests over HTTP/2.
        let mut map = headers(&[("te", "Trailers"), ("host", "a")]);
        strip(&mut map);
        assert_eq!(map, headers(&[("te", "trailers"), ("host", "a")]));
        let mut map = headers(&[("te", "gzip")]);
        strip(&mut map);
        assert!(map.is_empty());
    }

    #[test]
    fn allows_upgrade_only_with_both_headers_on_http_1_1() {
        assert!(upgrade(Version::HTTP_11, &headers(&[("upgrade", "websocket")])).is_none());
        let both = headers(&[("upgrade", "websocket"), ("connection", "keep-alive, Upgrade")]);
        assert_eq!(upgrade(Version::HTTP_11, &both).unwrap(), "websocket");
        assert!(upgrade(Version::HTTP_10, &both).is_none());
        for http in ["h2c", "H2", "websocket, h2c", "HTTP/2.0"] {
            let requested = headers(&[("upgrade", http), ("connection", "upgrade")]);
            assert!(upgrade(Version::HTTP_11, &requested).is_none(), "{http}");
        }
    }
}
