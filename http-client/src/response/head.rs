//! Parses the head of a response and selects the decoder of its body (RFC 9112, 4 and 6.3).

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version};
use httparse::Status;
use hyper::ext::ReasonPhrase;

use super::decoder::ResponseDecoder;
use super::framing::check_framing;
use crate::error::InvalidResponse;
use crate::headers;

/// Largest number of header lines: far more than apps send, so that what a sidecar adds to a
/// response does not exceed the bound of the activator in front of it.
const MAX_LINES: usize = 256;
/// Largest head, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// An empty line, with the end of the line before it.
const EMPTY_LINE: &[u8] = b"\n\r\n";

#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) response: Response<()>,
    /// Decoder of its body.
    pub(crate) decoder: ResponseDecoder,
    /// Whether the connection is persistent.
    pub(crate) keeps_connection: bool,
}

// === impl ResponseHead ===

impl ResponseHead {
    /// Removes the head of the response to a `method` request from the start of `read`. `None` if
    /// it is incomplete. Interim responses (1xx) are dropped, except 101.
    ///
    /// The first `parsed` bytes were incomplete in an earlier call. They are parsed again only once
    /// the head is complete, so that a head that arrives byte by byte takes no time that grows with
    /// its square.
    pub(crate) fn take(
        read: &mut Bytes,
        parsed: usize,
        method: &Method,
    ) -> Result<Option<Self>, InvalidResponse> {
        let may_end = parsed == 0 || has_empty_line(read, parsed);
        while may_end && let Some(response) = parse(read)? {
            if !response.status().is_informational() || response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Self::of(response, method).map(Some);
            }
        }
        if read.len() < MAX_BYTES { Ok(None) } else { Err(InvalidResponse::Head) }
    }

    fn of(mut response: Response<()>, method: &Method) -> Result<Self, InvalidResponse> {
        let decoder = if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            ResponseDecoder::Ended
        } else {
            check_http1_framing(&mut response)?;
            if has_no_body(response.status(), method) {
                ResponseDecoder::Ended
            } else {
                decoder(response.headers())?
            }
        };
        let keeps_connection = decoder != ResponseDecoder::UntilClose && keeps_connection(&response);
        Ok(Self { response, decoder, keeps_connection })
    }
}

/// Whether an empty line ends behind the first `parsed` bytes.
fn has_empty_line(read: &[u8], parsed: usize) -> bool {
    let tail = read.get(parsed.saturating_sub(EMPTY_LINE.len() - 1)..).unwrap_or_default();
    // A lone line feed ends a line as well (RFC 9112, 2.2).
    tail.windows(EMPTY_LINE.len()).any(|bytes| bytes == EMPTY_LINE)
        || tail.windows(2).any(|bytes| bytes == b"\n\n")
}

/// Removes one head from the start of `read`.
fn parse(read: &mut Bytes) -> Result<Option<Response<()>>, InvalidResponse> {
    if read.is_empty() {
        return Ok(None);
    }
    let mut lines = [const { MaybeUninit::uninit() }; MAX_LINES];
    let mut parsed = httparse::Response::new(&mut []);
    let status =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, read, &mut lines);
    let Status::Complete(length) = status.map_err(|_| InvalidResponse::Head)? else { return Ok(None) };
    let response = response(&parsed, read)?;
    bytes::Buf::advance(read, length);
    Ok(Some(response))
}

fn response(parsed: &httparse::Response<'_, '_>, read: &Bytes) -> Result<Response<()>, InvalidResponse> {
    let mut response = Response::new(());
    let code = parsed.code.ok_or(InvalidResponse::Head)?;
    *response.status_mut() = StatusCode::from_u16(code).map_err(|_| InvalidResponse::Head)?;
    if parsed.version == Some(0) {
        *response.version_mut() = Version::HTTP_10;
    }
    let reason = parsed.reason.filter(|reason| !reason.is_empty());
    if reason != response.status().canonical_reason()
        && let Some(reason) = reason.and_then(|reason| ReasonPhrase::try_from(reason.as_bytes()).ok())
    {
        response.extensions_mut().insert(reason);
    }
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for line in parsed.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| InvalidResponse::Head)?;
        let value =
            HeaderValue::from_maybe_shared(read.slice_ref(line.value)).map_err(|_| InvalidResponse::Head)?;
        headers.append(name, value);
    }
    *response.headers_mut() = headers;
    Ok(response)
}

fn check_http1_framing(response: &mut Response<()>) -> Result<(), InvalidResponse> {
    let old = response.version() == Version::HTTP_10;
    if old && response.headers().contains_key(header::TRANSFER_ENCODING) {
        // HTTP/1.0 has no transfer codings; such a peer would read until the connection closes (RFC
        // 9112, 6.1).
        return Err(InvalidResponse::Framing);
    }
    check_framing(response.headers_mut())
}

fn has_no_body(status: StatusCode, method: &Method) -> bool {
    method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Expects headers that passed [`check_framing`].
fn decoder(headers: &HeaderMap) -> Result<ResponseDecoder, InvalidResponse> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(ResponseDecoder::chunked());
    }
    let Some(length) = headers.get(header::CONTENT_LENGTH) else { return Ok(ResponseDecoder::UntilClose) };
    let length = length.to_str().ok().and_then(|length| length.parse().ok());
    Ok(ResponseDecoder::length(length.ok_or(InvalidResponse::Framing)?))
}

fn keeps_connection(response: &Response<()>) -> bool {
    let headers = response.headers();
    match response.version() {
        Version::HTTP_10 => headers::lists(headers, header::CONNECTION, "keep-alive"),
        _ => !headers::lists(headers, header::CONNECTION, "close"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the head from bytes that arrive in parts of `step`.
    fn taken(bytes: &[u8], step: usize) -> Result<(Response<()>, Bytes), InvalidResponse> {
        let mut read = Bytes::new();
        for part in bytes.chunks(step) {
            let parsed = read.len();
            read = [&read[..], part].concat().into();
            if let Some(head) = ResponseHead::take(&mut read, parsed, &Method::GET)? {
                return Ok((head.response, read));
            }
        }
        panic!("the head is incomplete")
    }

    #[test]
    fn takes_the_same_head_for_every_split_of_the_input() {
        for head in [
            "HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 3\r\n\r\n",
            "HTTP/1.1 200 OK\na: b\ncontent-length: 3\n\n",
            "HTTP/1.1 200 OK\r\na: b\ncontent-length: 3\n\r\n",
            "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\na: b\r\n\r\n",
        ] {
            for step in 1..head.len() {
                let (response, rest) = taken(head.as_bytes(), step).unwrap();
                assert_eq!(response.headers()["a"], "b");
                assert!(rest.is_empty(), "{head:?} {step}");
            }
        }
    }

    #[test]
    fn incomplete_head_is_parsed_once_until_its_empty_line() {
        let mut read = Bytes::from_static(b"HTTP/1.1 200 OK\r\na: b\r\n");
        assert!(ResponseHead::take(&mut read, 0, &Method::GET).unwrap().is_none());
        // Invalid, which only a parse can find.
        let (parsed, mut more) = (read.len(), Bytes::from([&read[..], b": \0"].concat()));
        assert!(ResponseHead::take(&mut more, parsed, &Method::GET).unwrap().is_none());
        let (parsed, mut all) = (more.len(), Bytes::from([&more[..], b"\r\n\r\n"].concat()));
        assert_eq!(ResponseHead::take(&mut all, parsed, &Method::GET).unwrap_err(), InvalidResponse::Head);
    }

    #[test]
    fn rejects_head_without_end_at_the_size_limit() {
        let mut read = Bytes::from([b"HTTP/1.1 200 OK\r\na: ".as_slice(), &vec![b'a'; MAX_BYTES]].concat());
        let parsed = read.len() - 1;
        assert_eq!(ResponseHead::take(&mut read, parsed, &Method::GET).unwrap_err(), InvalidResponse::Head);
    }
}
