//! What the HTTP library can read, and peers may read differently: refused before anybody acts on it.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Uri, Version};

use super::host;

/// Why a request goes nowhere. Its connection should end with the refusal: such a caller may see other ends than we do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A tunnel to anywhere is a forward proxy's business.
    #[error("CONNECT is not served here")]
    Connect,
    /// Nobody here undoes any other coding.
    #[error("a transfer coding other than one `chunked`")]
    Coding,
    /// None, or more than one.
    #[error("a request names its host exactly once")]
    Hosts,
    /// In `Host` or in the target.
    #[error("the host is no host with or without a port")]
    Host,
    /// The header and HTTP/2's own field.
    #[error("Host and :authority differ")]
    HostDiffers,
    /// `*` is for OPTIONS, an authority alone for CONNECT, and other schemes for others.
    #[error("the request's target has not the form of a target here")]
    Target,
}

/// Why a response goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResponse {
    /// No head of HTTP/1.1, or one larger than any may be.
    #[error("the response is none of HTTP/1.1")]
    Head,
    /// A length and a coding, lengths that differ, or a coding other than `chunked`.
    #[error("the response does not say clearly where it ends")]
    Framing,
    /// A 101 to who asked for none.
    #[error("the response switches protocols unasked")]
    Switch,
}

// === impl Malformed ===

impl Malformed {
    /// What a caller is told.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Connect | Self::Coding => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Whether a request means the same to every peer.
///
/// # Errors
/// See [`Malformed`].
pub fn check<B>(request: &Request<B>) -> Result<(), Malformed> {
    if request.method() == Method::CONNECT {
        return Err(Malformed::Connect);
    }
    check_target(request.method(), request.uri())?;
    let headers = request.headers();
    if request.version() == Version::HTTP_2 {
        return check_authority(request.uri(), headers);
    }
    // The library refuses what does not end with `chunked`.
    if headers.contains_key(header::TRANSFER_ENCODING) && !is_chunked(headers) {
        return Err(Malformed::Coding);
    }
    match only(headers, header::HOST)? {
        Some(host) if !host::is_valid(host.as_bytes()) => Err(Malformed::Host),
        None if request.version() == Version::HTTP_11 => Err(Malformed::Hosts),
        _ => Ok(()),
    }
}

fn check_target(method: &Method, uri: &Uri) -> Result<(), Malformed> {
    if uri.path() == "*" && method != Method::OPTIONS {
        return Err(Malformed::Target);
    }
    let Some(authority) = uri.authority() else { return Ok(()) };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(Malformed::Target);
    }
    if host::is_valid(authority.as_str().as_bytes()) { Ok(()) } else { Err(Malformed::Host) }
}

fn check_authority(uri: &Uri, headers: &HeaderMap) -> Result<(), Malformed> {
    match (uri.authority(), only(headers, header::HOST)?) {
        (None, None) => Err(Malformed::Hosts),
        (Some(_), None) => Ok(()),
        (None, Some(host)) if host.is_empty() || !host::is_valid(host.as_bytes()) => Err(Malformed::Host),
        (None, Some(_)) => Ok(()),
        (Some(asked), Some(host)) if asked.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()) => {
            Ok(())
        }
        (Some(_), Some(_)) => Err(Malformed::HostDiffers),
    }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, Malformed> {
    let mut lines = headers.get_all(name).into_iter();
    let first = lines.next();
    if lines.next().is_some() { Err(Malformed::Hosts) } else { Ok(first) }
}

/// Checks how a response ends, and leaves one length at most.
pub(crate) fn framing(headers: &mut HeaderMap) -> Result<(), BadResponse> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        let clear = is_chunked(headers) && !headers.contains_key(header::CONTENT_LENGTH);
        return if clear { Ok(()) } else { Err(BadResponse::Framing) };
    }
    let Some(length) = headers.get(header::CONTENT_LENGTH) else { return Ok(()) };
    if is_length(length.as_bytes()) && headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_none() {
        return Ok(());
    }
    let one = one_length(headers).ok_or(BadResponse::Framing)?;
    headers.insert(header::CONTENT_LENGTH, one);
    Ok(())
}

/// The one length that all lines and entries name.
fn one_length(headers: &HeaderMap) -> Option<HeaderValue> {
    let lines = headers.get_all(header::CONTENT_LENGTH).into_iter();
    let mut lengths =
        lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let first = lengths.next().filter(|first| is_length(first))?;
    lengths.all(|other| other == first).then(|| HeaderValue::from_bytes(first).ok()).flatten()
}

fn is_length(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

fn is_chunked(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let first = lines.next().is_some_and(|line| line.as_bytes().eq_ignore_ascii_case(b"chunked"));
    first && lines.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(request: http::request::Builder) -> Result<(), Malformed> {
        check(&request.body(()).unwrap())
    }

    #[test]
    fn a_host_is_named_exactly_once() {
        assert_eq!(checked(Request::get("/").header("host", "a")), Ok(()));
        assert_eq!(checked(Request::get("/")), Err(Malformed::Hosts));
        assert_eq!(checked(Request::get("/").header("host", "a").header("host", "a")), Err(Malformed::Hosts));
        assert_eq!(checked(Request::get("/").header("host", "a b")), Err(Malformed::Host));
        assert_eq!(checked(Request::get("/").version(Version::HTTP_10)), Ok(()));
    }

    #[test]
    fn an_authority_and_a_host_agree() {
        let http2 = |uri| Request::get(uri).version(Version::HTTP_2);
        assert_eq!(checked(http2("http://a/")), Ok(()));
        assert_eq!(checked(http2("http://a/").header("host", "A")), Ok(()));
        assert_eq!(checked(http2("http://a/").header("host", "b")), Err(Malformed::HostDiffers));
        assert_eq!(checked(http2("/").header("host", "b")), Ok(()));
        assert_eq!(checked(http2("/").header("host", "")), Err(Malformed::Host));
        assert_eq!(checked(http2("/")), Err(Malformed::Hosts));
    }

    #[test]
    fn targets_have_the_form_of_their_method() {
        let to = |method, uri| Request::builder().method(method).uri(uri).header("host", "a");
        assert_eq!(checked(to("OPTIONS", "*")), Ok(()));
        assert_eq!(checked(to("GET", "*")), Err(Malformed::Target));
        assert_eq!(checked(to("GET", "b:80")), Err(Malformed::Target));
        assert_eq!(checked(to("GET", "ftp://b/")), Err(Malformed::Target));
        assert_eq!(checked(to("GET", "http://user@b/")), Err(Malformed::Host));
        assert_eq!(checked(to("CONNECT", "b:80")), Err(Malformed::Connect));
    }

    #[test]
    fn a_response_ends_in_one_way() {
        let framed = |fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            framing(&mut headers)
                .map(|()| headers.get("content-length").map(|length| length.to_str().unwrap().to_owned()))
        };
        let (coding, length) = ("transfer-encoding", "content-length");
        assert_eq!(framed(&[]), Ok(None));
        assert_eq!(framed(&[(coding, "Chunked")]), Ok(None));
        assert_eq!(framed(&[(length, "2"), (length, "2 ,2")]), Ok(Some("2".to_owned())));
        for bad in [
            [(coding, "chunked"), (length, "2")],
            [(coding, "gzip"), (coding, "chunked")],
            [(length, "2"), (length, "3")],
            [(length, "+2"), ("x", "y")],
            [(length, ""), ("x", "y")],
        ] {
            assert_eq!(framed(&bad), Err(BadResponse::Framing), "{bad:?}");
        }
    }
}
