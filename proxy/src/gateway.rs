//! Rules of an HTTP gateway for the heads of requests and responses (RFC 9110, 7; RFC 9112; RFC
//! 9113, 8).
//!
//! ```text
//!  client's request ─► check_request ─► prepare_request ─► app or pod
//!  client ◄───────────────────────────── prepare_response ◄── its response
//! ```
//!
//! hyper rejects what it cannot parse. This module rejects what two peers could parse differently,
//! because that is how requests are smuggled. It also removes headers that concern one connection.
//! Bodies are not read.

mod check;
mod forwarded;
pub mod grpc;
mod hop_by_hop;
mod host;

use std::net::{IpAddr, SocketAddr};

use http::header::{self, HeaderValue};
use http::uri::{Authority, Scheme, Uri};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_client::InvalidResponse;

use crate::listener::ConnectionAddresses;

pub use check::{MalformedRequest, check_request};

/// True if a request may upgrade its connection to another protocol.
pub fn is_upgrade_request<B>(request: &Request<B>) -> bool {
    hop_by_hop::upgrade(request.version(), request.headers()).is_some()
}

/// The peer that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Any client.
    Client,
    /// A proxy of ours, which has authenticated itself and has named its client.
    OwnProxy,
}

/// Prepares a checked request for the next hop: origin-form target, authority where its version has
/// it, no hop-by-hop headers, forwarding headers.
///
/// Keeps `Connection` and `Upgrade` if and only if the client requests an upgrade.
pub fn prepare_request<B>(request: &mut Request<B>, addresses: &ConnectionAddresses, sender: Sender) {
    let upgrade = hop_by_hop::upgrade(request.version(), request.headers()).cloned();
    hop_by_hop::strip(request.headers_mut());
    if let Some(protocol) = upgrade {
        let headers = request.headers_mut();
        headers.insert(header::UPGRADE, protocol);
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let is_https = request.uri().scheme() == Some(&Scheme::HTTPS);
    forwarded::add_protocol(request.headers_mut(), is_https);
    if sender == Sender::Client || !forwarded::names_client(request.headers()) {
        add_client(request.headers_mut(), addresses);
    }
    if request.version() == Version::HTTP_2 {
        name_authority(request);
    } else {
        name_host(request, addresses.local);
    }
}

/// Adds the client's address to the forwarding headers.
pub fn add_client(headers: &mut HeaderMap, addresses: &ConnectionAddresses) {
    forwarded::add(headers, &addresses.peer);
}

/// The client of the proxy that sent these headers, as that proxy added it by [`add_client`].
pub fn forwarded_client(headers: &HeaderMap) -> Option<IpAddr> {
    forwarded::last_client(headers)
}

/// Removes the headers with these names, all of which are rare.
pub fn remove_headers(headers: &mut HeaderMap, names: &[&'static str]) {
    // One pass over the names costs less than a lookup for each, and clients send no such header.
    if headers.keys().any(|name| names.contains(&name.as_str())) {
        for name in names {
            headers.remove(*name);
        }
    }
}

/// Removes the headers of one connection from an interim response.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    hop_by_hop::strip(headers);
}

/// Prepares a response for the client: no hop-by-hop headers, HTTP/1.1 or newer. `http_client` has
/// checked its framing.
///
/// # Errors
/// When it switches protocols and the client did not request that.
pub fn prepare_response<B>(
    response: &mut Response<B>,
    upgrade_requested: bool,
) -> Result<(), InvalidResponse> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // The connection is relayed from here on, with these headers.
        return if upgrade_requested { Ok(()) } else { Err(InvalidResponse::Switch) };
    }
    hop_by_hop::strip(response.headers_mut());
    if response.version() != Version::HTTP_2 {
        // The server frames the body for the client's HTTP version.
        response.headers_mut().remove(header::TRANSFER_ENCODING);
    }
    if response.version() < Version::HTTP_11 {
        *response.version_mut() = Version::HTTP_11;
    }
    Ok(())
}

/// HTTP/1: the target is the path, and Host is the authority of the request.
fn name_host<B>(request: &mut Request<B>, local: SocketAddr) {
    let uri = std::mem::take(request.uri_mut()).into_parts();
    let from_target = uri.authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    *request.uri_mut() = uri.path_and_query.map(Uri::from).unwrap_or_default();
    let old = request.version() == Version::HTTP_10;
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    if old {
        // An HTTP/1.0 client sends its body at once and does not expect interim responses.
        headers.remove(header::EXPECT);
    }
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // `check_request` has ensured that it is `chunked`, in any case of letters.
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if let Some(host) = from_target {
        headers.insert(header::HOST, host);
    } else if old && !headers.contains_key(header::HOST) {
        // The default of HTTP/1.1: the address of the connection (RFC 9112, 3.3).
        let address = SocketAddr::new(local.ip().to_canonical(), local.port());
        headers.extend(HeaderValue::try_from(address.to_string()).map(|host| (header::HOST, host)));
    }
}

/// HTTP/2: `:authority` replaces Host.
fn name_authority<B>(request: &mut Request<B>) {
    let Some(host) = request.headers_mut().remove(header::HOST) else { return };
    if request.uri().authority().is_some() {
        return;
    }
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.authority = Authority::try_from(host.as_bytes()).ok();
    uri.scheme = Some(uri.scheme.unwrap_or(Scheme::HTTP));
    // The host was checked, and an HTTP/2 request always has a path.
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(request: http::request::Builder) -> Request<()> {
        let (peer, local) = ("[::ffff:10.0.0.7]:1234", "[::ffff:10.0.0.1]:8012");
        let addresses = ConnectionAddresses::new(peer.parse().unwrap(), local.parse().unwrap());
        let mut request = request.body(()).unwrap();
        prepare_request(&mut request, &addresses, Sender::Client);
        request
    }

    #[test]
    fn request_of_own_proxy_keeps_the_client_that_it_names() {
        let address = "10.0.0.7:1234".parse().unwrap();
        let addresses = ConnectionAddresses::new(address, address);
        let forwarded = |sender, named: Option<&str>| {
            let mut request = Request::get("/");
            if let Some(client) = named {
                request = request.header("x-forwarded-for", client).header("forwarded", "for=10.0.0.9");
            }
            let mut request = request.body(()).unwrap();
            prepare_request(&mut request, &addresses, sender);
            let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (header("x-forwarded-for").unwrap(), header("forwarded"))
        };
        let named = forwarded(Sender::OwnProxy, Some("10.0.0.8, 10.0.0.9"));
        assert_eq!(named, ("10.0.0.8, 10.0.0.9".into(), Some("for=10.0.0.9".into())));
        let appended = forwarded(Sender::Client, Some("10.0.0.9"));
        assert_eq!(appended, ("10.0.0.9, 10.0.0.7".into(), Some("for=10.0.0.9, for=10.0.0.7".into())));
        assert_eq!(forwarded(Sender::OwnProxy, None), ("10.0.0.7".into(), None));
    }

    #[test]
    fn protocol_is_the_scheme_unless_an_earlier_proxy_names_it() {
        let protocol = |uri: &str, earlier: Option<&str>| {
            let mut request = Request::get(uri).version(Version::HTTP_2);
            if let Some(earlier) = earlier {
                request = request.header("x-forwarded-proto", earlier);
            }
            passed(request).headers()["x-forwarded-proto"].to_str().unwrap().to_owned()
        };
        assert_eq!(protocol("https://a/", None), "https");
        assert_eq!(protocol("https://a/", Some("")), "https");
        assert_eq!(protocol("http://a/", None), "http");
        assert_eq!(protocol("ws://a/", None), "http");
        assert_eq!(protocol("http://a/", Some("https")), "https");
        assert_eq!(protocol("https://a/", Some("http")), "http");
    }

    #[test]
    fn splits_absolute_target_into_host_and_path() {
        let request = passed(Request::get("http://shop.example/a?b").header("host", "other"));
        assert_eq!(
            (request.uri(), &request.headers()["host"]),
            (&"/a?b".parse().unwrap(), &"shop.example".parse().unwrap())
        );
        let request = passed(Request::options("*").header("host", "a"));
        assert_eq!(request.uri(), "*");
    }

    #[test]
    fn adds_local_address_as_host_of_http_1_0_request() {
        let request = passed(Request::get("/").version(Version::HTTP_10).header("expect", "100-continue"));
        assert_eq!(
            (request.version(), &request.headers()["host"]),
            (Version::HTTP_11, &"10.0.0.1:8012".parse().unwrap())
        );
        assert!(!request.headers().contains_key("expect"));
    }

    #[test]
    fn replaces_host_of_http_2_request_by_authority() {
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
    fn keeps_upgrade_headers_of_request_and_of_switching_response() {
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
    fn raises_version_of_http_1_0_response() {
        let mut response =
            Response::builder().version(Version::HTTP_10).header("connection", "close").body(()).unwrap();
        prepare_response(&mut response, false).unwrap();
        assert_eq!((response.version(), response.headers().len()), (Version::HTTP_11, 0));
    }
}
