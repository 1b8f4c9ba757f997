//! Parses the status and the length of an HTTP/1.1 response, which is all that the load generator
//! needs.

use std::str;

const HEAD_END: &[u8] = b"\r\n\r\n";
const VERSION: &[u8] = b"HTTP/1.1 ";
const CONTENT_LENGTH: &[u8] = b"content-length:";

/// A response that has a `Content-Length`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Bytes of head and body.
    pub(crate) length: usize,
}

/// The bytes are not HTTP/1.1, or the response has no `Content-Length`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Malformed;

/// Parses the response at the start of `bytes`; `None` while its head is incomplete.
///
/// # Errors
/// When it is not HTTP/1.1 or has no `Content-Length`.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Response>, Malformed> {
    let Some(head_end) = bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END) else {
        return Ok(None);
    };
    let head = bytes.get(..head_end).unwrap_or_default();
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(status).ok_or(Malformed)?;
    let body = lines.find_map(content_length).ok_or(Malformed)?;
    Ok(Some(Response { status, length: head_end.saturating_add(HEAD_END.len()).saturating_add(body) }))
}

fn status(line: &[u8]) -> Option<u16> {
    number(line.strip_prefix(VERSION)?.get(..3)?)
}

fn content_length(line: &[u8]) -> Option<usize> {
    let (name, value) = line.split_at_checked(CONTENT_LENGTH.len())?;
    if name.eq_ignore_ascii_case(CONTENT_LENGTH) { number(value) } else { None }
}

fn number<T: str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_head_and_body_in_the_length() {
        let bytes = b"HTTP/1.1 200 OK\r\nServer: nginx\r\ncontent-LENGTH: 14\r\n\r\nHello";
        assert_eq!(parse(bytes), Ok(Some(Response { status: 200, length: bytes.len() - 5 + 14 })));
    }

    #[test]
    fn returns_none_for_an_incomplete_head() {
        let head = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
        for cut in 0..head.len() {
            assert_eq!(parse(&head[..cut]), Ok(None), "cut at {cut}");
        }
        assert_eq!(parse(head), Ok(Some(Response { status: 503, length: head.len() })));
    }

    #[test]
    fn rejects_response_without_content_length() {
        for bytes in [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(parse(bytes.as_bytes()), Err(Malformed), "{bytes:?}");
        }
    }
}
