//! Rejects requests that hyper can parse but peers may parse differently.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Uri, Version};

use http_client::headers::is_chunked;

use super::{forwarded, host};

/// Proxies that a request may have passed. Each adds its client to `X-Forwarded-For`, and so does a
/// loop of proxies, which would otherwise go on until their descriptors are used up.
const MAX_HOPS: usize = 100;

/// Why a request is rejected. Its connection should close with the response: client and proxy may
/// disagree on where the request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// Tunnels are for forward proxies.
    #[error("CONNECT is not supported")]
    Connect,
    /// Only `chunked` is decoded here.
    #[error("unsupported Transfer-Encoding; only `chunked` is supported")]
    Coding,
    /// No Host, or more than one.
    #[error("a request needs exactly one Host header")]
    Hosts,
    /// Invalid Host or authority.
    #[error("invalid host; use a name or an address, with or without a port")]
    Host,
    /// Host and `:authority` of an HTTP/2 request differ.
    #[error("Host and :authority differ")]
    HostDiffers,
    /// `*` is for OPTIONS, authority form for CONNECT, and other schemes are not served.
    #[error("invalid request target for this method")]
    Target,
    /// It goes round between proxies.
    #[error(
        "X-Forwarded-For has more than {MAX_HOPS} entries; check that no proxy or Service leads back to itself"
    )]
    Loop,
}

// === impl MalformedRequest ===

impl MalformedRequest {
    /// The status code of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Connect | Self::Coding => StatusCode::NOT_IMPLEMENTED,
            Self::Loop => StatusCode::LOOP_DETECTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Checks that every peer parses a request alike.
///
/// # Errors
/// See [`MalformedRequest`].
pub fn check_request<B>(request: &Request<B>) -> Result<(), MalformedRequest> {
    if request.method() == Method::CONNECT {
        return Err(MalformedRequest::Connect);
    }
    check_target(request.method(), request.uri())?;
    let headers = request.headers();
    if forwarded::hops(headers) > MAX_HOPS {
        return Err(MalformedRequest::Loop);
    }
    if request.version() == Version::HTTP_2 {
        return check_authority(request.uri(), headers);
    }
    // hyper rejects codings that do not end with `chunked`.
    if headers.contains_key(header::TRANSFER_ENCODING) && !is_chunked(headers) {
        return Err(MalformedRequest::Coding);
    }
    match only(headers, header::HOST)? {
        Some(host) if !host::is_valid(host.as_bytes()) => Err(MalformedRequest::Host),
        None if request.version() == Version::HTTP_11 => Err(MalformedRequest::Hosts),
        _ => Ok(()),
    }
}

fn check_target(method: &Method, uri: &Uri) -> Result<(), MalformedRequest> {
    if uri.path() == "*" && method != Method::OPTIONS {
        return Err(MalformedRequest::Target);
    }
    let Some(authority) = uri.authority() else { return Ok(()) };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(MalformedRequest::Target);
    }
    if host::is_valid(authority.as_str().as_bytes()) { Ok(()) } else { Err(MalformedRequest::Host) }
}

fn check_authority(uri: &Uri, headers: &HeaderMap) -> Result<(), MalformedRequest> {
    match (uri.authority(), only(headers, header::HOST)?) {
        (None, None) => Err(MalformedRequest::Hosts),
        (Some(_), None) => Ok(()),
        (None, Some(host)) if host.is_empty() || !host::is_valid(host.as_bytes()) => {
            Err(MalformedRequest::Host)
        }
        (None, Some(_)) => Ok(()),
        (Some(authority), Some(host))
            if authority.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) =>
        {
            Ok(())
        }
        (Some(_), Some(_)) => Err(MalformedRequest::HostDiffers),
    }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, MalformedRequest> {
    let mut lines = headers.get_all(name).into_iter();
    let first = lines.next();
    if lines.next().is_some() { Err(MalformedRequest::Hosts) } else { Ok(first) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(request: http::request::Builder) -> Result<(), MalformedRequest> {
        check_request(&request.body(()).unwrap())
    }

    #[test]
    fn requires_exactly_one_valid_host() {
        assert_eq!(checked(Request::get("/").header("host", "a")), Ok(()));
        assert_eq!(checked(Request::get("/")), Err(MalformedRequest::Hosts));
        assert_eq!(
            checked(Request::get("/").header("host", "a").header("host", "a")),
            Err(MalformedRequest::Hosts)
        );
        assert_eq!(checked(Request::get("/").header("host", "a b")), Err(MalformedRequest::Host));
        assert_eq!(checked(Request::get("/").version(Version::HTTP_10)), Ok(()));
    }

    #[test]
    fn rejects_requests_that_have_passed_too_many_proxies() {
        let passed = |hops: usize| {
            let lines = Request::get("/").header("host", "a").header("x-forwarded-for", "10.0.0.1, 10.0.0.2");
            let rest = vec!["10.0.0.1"; hops - 2].join(",");
            checked(lines.header("x-forwarded-for", rest))
        };
        assert_eq!(passed(MAX_HOPS), Ok(()));
        assert_eq!(passed(MAX_HOPS + 1), Err(MalformedRequest::Loop));
    }

    #[test]
    fn rejects_host_that_differs_from_authority() {
        let http2 = |uri| Request::get(uri).version(Version::HTTP_2);
        assert_eq!(checked(http2("http://a/")), Ok(()));
        assert_eq!(checked(http2("http://a/").header("host", "A")), Ok(()));
        assert_eq!(checked(http2("http://a/").header("host", "b")), Err(MalformedRequest::HostDiffers));
        assert_eq!(checked(http2("/").header("host", "b")), Ok(()));
        assert_eq!(checked(http2("/").header("host", "")), Err(MalformedRequest::Host));
        assert_eq!(checked(http2("/")), Err(MalformedRequest::Hosts));
    }

    #[test]
    fn rejects_target_form_that_the_method_does_not_allow() {
        let to = |method, uri| Request::builder().method(method).uri(uri).header("host", "a");
        assert_eq!(checked(to("OPTIONS", "*")), Ok(()));
        assert_eq!(checked(to("GET", "*")), Err(MalformedRequest::Target));
        assert_eq!(checked(to("GET", "b:80")), Err(MalformedRequest::Target));
        assert_eq!(checked(to("GET", "ftp://b/")), Err(MalformedRequest::Target));
        assert_eq!(checked(to("GET", "http://user@b/")), Err(MalformedRequest::Host));
        assert_eq!(checked(to("CONNECT", "b:80")), Err(MalformedRequest::Connect));
    }
}
