//! Headers that belong to one connection and must not cross a proxy (RFC 9110, 7.6.1).

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Always of one connection, whether `Connection` names them or not. `Trailer` is not among them: it announces what
/// follows the body, and without it HTTP/1.1 peers would drop the trailers.
const ALWAYS: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes the headers of one connection.
pub(crate) fn strip(headers: &mut HeaderMap) {
    for name in named_by_connection(headers) {
        headers.remove(name);
    }
    for name in ALWAYS {
        headers.remove(name);
    }
    strip_te(headers);
}

/// Empty, hence without an allocation, for what `Connection` says nearly always.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    connection_options(headers)
        .filter(|name| {
            !["close", "keep-alive", "upgrade", "te"].iter().any(|known| name.eq_ignore_ascii_case(known))
        })
        .filter_map(|name| name.parse().ok())
        .collect()
}

fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// `TE: trailers` says something about the caller itself (gRPC insists on it); other values concern the connection.
fn strip_te(headers: &mut HeaderMap) {
    let Some(te) = headers.get(header::TE) else { return };
    let trailers =
        te.to_str().unwrap_or_default().split(',').any(|v| v.trim().eq_ignore_ascii_case("trailers"));
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    } else {
        headers.remove(header::TE);
    }
}

/// The protocol to which a request asks to switch its connection, if it does.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<&HeaderValue> {
    let protocol = headers.get(header::UPGRADE)?;
    let asks = connection_options(headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    asks.then_some(protocol)
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
    fn what_connection_names_goes_with_it() {
        let mut map = headers(&[("connection", "close, X-Once"), ("x-once", "1"), ("x-stays", "2")]);
        map.append("connection", HeaderValue::from_static("x-twice"));
        map.insert("x-twice", HeaderValue::from_static("3"));
        strip(&mut map);
        assert_eq!(map, headers(&[("x-stays", "2")]));
    }

    #[test]
    fn trailers_survive() {
        let mut map = headers(&[("te", "gzip, trailers"), ("trailer", "grpc-status"), ("connection", "te")]);
        strip(&mut map);
        assert_eq!(map, headers(&[("te", "trailers"), ("trailer", "grpc-status")]));
    }

    #[test]
    fn an_upgrade_needs_both_headers() {
        assert!(upgrade(&headers(&[("upgrade", "websocket")])).is_none());
        let both = headers(&[("upgrade", "websocket"), ("connection", "keep-alive, Upgrade")]);
        assert_eq!(upgrade(&both).unwrap(), "websocket");
    }
}
