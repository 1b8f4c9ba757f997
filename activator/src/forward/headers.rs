//! Which headers go on to the pod, and which come back.

use std::net::IpAddr;

use autoscaler::contract::{PROBE_ACTIVATOR, PROXIED_HEADER};
use http::header::{
    CONNECTION, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};

use super::upgrade;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Headers that speak of one connection only.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The headers of a request as the pod gets them.
pub(super) fn to_pod(head: &Parts, peer: Option<IpAddr>) -> HeaderMap {
    let mut headers = head.headers.clone();
    let upgrade = upgrade::wanted(head);
    strip(&mut headers);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    keep_authority(&mut headers, head);
    if let Some(peer) = peer {
        append_forwarded_for(&mut headers, peer.to_canonical());
    }
    headers.insert(PROXIED_HEADER, HeaderValue::from_static(PROBE_ACTIVATOR));
    headers
}

/// Takes off a response what only the pod's connection is about. A 101 keeps it: that connection is handed on.
pub(super) fn strip_response<B>(response: &mut Response<B>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        strip(response.headers_mut());
    }
    if response.version() == Version::HTTP_10 {
        *response.version_mut() = Version::HTTP_11;
    }
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    // Without "TE: trailers" gRPC servers refuse.
    if headers.get(TE).is_some_and(|value| value != "trailers") {
        headers.remove(TE);
    }
}

/// The request line names the pod, so what the caller named has to go into a header.
fn keep_authority(headers: &mut HeaderMap, head: &Parts) {
    let Some(authority) = head.uri.authority() else { return };
    let Ok(authority) = HeaderValue::from_str(authority.as_str()) else { return };
    if head.version == Version::HTTP_2 {
        headers.entry(FORWARDED_HOST).or_insert(authority);
    } else {
        headers.insert(HOST, authority);
    }
}

fn append_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let mut value = String::new();
    for before in headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()) {
        value.push_str(before);
        value.push_str(", ");
    }
    value.push_str(&peer.to_string());
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(FORWARDED_FOR, value);
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn sent(request: http::request::Builder) -> HeaderMap {
        let (head, ()) = request.body(()).unwrap().into_parts();
        to_pod(&head, Some("::ffff:10.0.0.7".parse().unwrap()))
    }

    #[test]
    fn hop_by_hop_headers_stay_behind() {
        let headers = sent(
            Request::get("/")
                .header("connection", "keep-alive, X-Secret")
                .header("keep-alive", "timeout=5")
                .header("x-secret", "1")
                .header("te", "trailers")
                .header("host", "shop.example")
                .header("x-forwarded-for", "1.2.3.4"),
        );
        for gone in ["connection", "keep-alive", "x-secret"] {
            assert!(!headers.contains_key(gone), "{gone}");
        }
        assert_eq!(headers["te"], "trailers");
        assert_eq!(headers["host"], "shop.example");
        assert_eq!(headers["x-forwarded-for"], "1.2.3.4, 10.0.0.7");
        assert_eq!(headers[PROXIED_HEADER], "activator");
    }

    #[test]
    fn an_upgrade_goes_on() {
        let headers = sent(Request::get("/").header("connection", "Upgrade").header("upgrade", "websocket"));
        assert_eq!(
            (&headers["connection"], &headers["upgrade"]),
            (&"upgrade".parse().unwrap(), &"websocket".parse().unwrap())
        );
    }

    #[test]
    fn the_authority_survives() {
        let headers = sent(Request::get("http://shop.example/a").header("host", "other"));
        assert_eq!(headers["host"], "shop.example");
        let headers = sent(Request::get("http://shop.example/a").version(Version::HTTP_2));
        assert_eq!(headers["x-forwarded-host"], "shop.example");
    }
}
