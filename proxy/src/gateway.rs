//! What a proxy does to the heads that pass it, whatever carries them (RFC 9110, 7; RFC 9112; RFC 9113, 8).
//!
//! ```text
//!  caller's request ─► check ─► prepare_request ─► app or pod
//!  caller ◄──────────────────── prepare_response ◄── its response
//! ```
//!
//! The HTTP library refuses what it cannot read. What it can read and two peers could read differently is refused here, since
//! that is how requests are smuggled; and what concerns one connection ends here. Bodies are never looked at.

mod check;
mod forwarded;
mod hop_by_hop;
mod host;

use std::net::SocketAddr;

use http::header::{self, HeaderValue};
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response, StatusCode, Version};
use http_client::InvalidResponse;

use crate::listener::ConnectionAddresses;

pub use check::{MalformedRequest, check_request};

/// Whether a request asks to switch its connection to another protocol, and may.
pub fn is_upgrade_request<B>(request: &Request<B>) -> bool {
    hop_by_hop::upgrade(request.version(), request.headers()).is_some()
}

/// Makes a request that was checked one for the next hop: its target as to an origin, the authority where its version has
/// it, no headers of the caller's connection, and who asked.
///
/// Headers `Connection` and `Upgrade` are left if and only if the caller asks to upgrade.
pub fn prepare_request<B>(request: &mut Request<B>, ends: &ConnectionAddresses) {
    let upgrade = hop_by_hop::upgrade(request.version(), request.headers()).cloned();
    hop_by_hop::strip(request.headers_mut());
    if let Some(protocol) = upgrade {
        let headers = request.headers_mut();
        headers.insert(header::UPGRADE, protocol);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    forwarded::add(request.headers_mut(), &ends.peer);
    if request.version() == Version::HTTP_2 {
        name_authority(request);
    } else {
        name_host(request, ends.local);
    }
}

/// Makes a response one for the caller, who has asked to upgrade or not: nothing of the connection it came on. Where it ends was
/// checked when it was taken in (`upstream`).
///
/// # Errors
/// When it switches to what nobody asked for.
pub fn prepare_response<B>(
    response: &mut Response<B>,
    asked_to_upgrade: bool,
) -> Result<(), InvalidResponse> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // The connection is handed on, headers and all.
        return if asked_to_upgrade { Ok(()) } else { Err(InvalidResponse::Switch) };
    }
    hop_by_hop::strip(response.headers_mut());
    // How a body ends between us and the caller depends on the caller's version.
    response.headers_mut().remove(header::TRANSFER_ENCODING);
    if response.version() < Version::HTTP_11 {
        *response.version_mut() = Version::HTTP_11;
    }
    Ok(())
}

/// HTTP/1: the target is the path alone, and Host says what the caller asked for.
fn name_host<B>(request: &mut Request<B>, local: SocketAddr) {
    let uri = std::mem::take(request.uri_mut()).into_parts();
    let from_target = uri.authority.and_then(|asked| HeaderValue::from_str(asked.as_str()).ok());
    *request.uri_mut() = uri.path_and_query.map(Uri::from).unwrap_or_default();
    let old = request.version() == Version::HTTP_10;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    if old {
        // Such a caller sends its body at once, and knows no answer but the last.
        headers.remove(header::EXPECT);
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // It was checked to be this, in whatever case.
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if let Some(host) = from_target {
        headers.insert(header::HOST, host);
    } else if old && !headers.contains_key(header::HOST) {
        // What HTTP/1.1 calls the default: the address that was asked (RFC 9112, 3.3).
        let asked = SocketAddr::new(local.ip().to_canonical(), local.port());
        headers.extend(HeaderValue::try_from(asked.to_string()).map(|asked| (header::HOST, asked)));
    }
}

/// HTTP/2: the authority says it all, so Host is one too many.
fn name_authority<B>(request: &mut Request<B>) {
    let Some(host) = request.headers_mut().remove(header::HOST) else { return };
    if request.uri().authority().is_some() {
        return;
    }
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.authority = Authority::try_from(host.as_bytes()).ok();
    uri.scheme = Some(uri.scheme.unwrap_or(Scheme::HTTP));
    // The host was checked, and a path is never missing.
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(request: http::request::Builder) -> Request<()> {
        let (peer, local) = ("[::ffff:10.0.0.7]:1234", "[::ffff:10.0.0.1]:8012");
        let ends = ConnectionAddresses::new(peer.parse().unwrap(), local.parse().unwrap());
        let mut request = request.body(()).unwrap();
        prepare_request(&mut request, &ends);
        request
    }

    #[test]
    fn an_absolute_target_becomes_host_and_path() {
        let request = passed(Request::get("http://shop.example/a?b").header("host", "other"));
        assert_eq!(
            (request.uri(), &request.headers()["host"]),
            (&"/a?b".parse().unwrap(), &"shop.example".parse().unwrap())
        );
        let request = passed(Request::options("*").header("host", "a"));
        assert_eq!(request.uri(), "*");
    }

    #[test]
    fn http_1_0_is_told_where_it_came_to() {
        let request = passed(Request::get("/").version(Version::HTTP_10).header("expect", "100-continue"));
        assert_eq!(
            (request.version(), &request.headers()["host"]),
            (Version::HTTP_11, &"10.0.0.1:8012".parse().unwrap())
        );
        assert!(!request.headers().contains_key("expect"));
    }

    #[test]
    fn http_2_names_its_authority() {
        let request = passed(Request::get("/a").version(Version::HTTP_2).header("host", "shop.example:81"));
        assert_eq!(request.uri(), "http://shop.example:81/a");
        assert!(!request.headers().contains_key("host"));
        let request = passed(Request::get("http://b/a").version(Version::HTTP_2).header("host", "b"));
        assert_eq!(
            (request.uri().to_string(), request.headers().contains_key("host")),
            ("http://b/a".into(), false)
        );
    }

    #[test]
    fn an_upgrade_passes_and_its_refusal_is_an_ordinary_response() {
        let request = passed(
            Request::get("/").header("connection", "keep-alive, Upgrade").header("upgrade", "websocket"),
        );
        assert_eq!(
            (&request.headers()["connection"], &request.headers()["upgrade"]),
            (&"upgrade".parse().unwrap(), &"websocket".parse().unwrap())
        );
        let mut response = Response::builder().status(426).header("upgrade", "websocket").body(()).unwrap();
        prepare_response(&mut response, true).unwrap();
        assert!(response.headers().is_empty());
        let mut switch = Response::builder().status(101).header("upgrade", "websocket").body(()).unwrap();
        prepare_response(&mut switch, true).unwrap();
        assert_eq!(switch.headers().len(), 1);
        assert_eq!(prepare_response(&mut switch, false), Err(InvalidResponse::Switch));
    }

    #[test]
    fn responses_of_http_1_0_become_ours() {
        let mut response =
            Response::builder().version(Version::HTTP_10).header("connection", "close").body(()).unwrap();
        prepare_response(&mut response, false).unwrap();
        assert_eq!((response.version(), response.headers().len()), (Version::HTTP_11, 0));
    }
}
