//! How a response ends: by one length or by one coding (RFC 9112, 6.3).

use http::header::{self, HeaderMap, HeaderValue};

use crate::error::InvalidResponse;
use crate::headers::is_chunked;

/// Rejects ambiguous framing, and reduces repeated equal lengths to one.
pub(crate) fn check_framing(headers: &mut HeaderMap) -> Result<(), InvalidResponse> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        let clear = is_chunked(headers) && !headers.contains_key(header::CONTENT_LENGTH);
        return if clear { Ok(()) } else { Err(InvalidResponse::Framing) };
    }
    check_length(headers)
}

/// As [`check_framing`], for HTTP/2, which has no codings of transfers: h2 rejects them.
pub(crate) fn check_length(headers: &mut HeaderMap) -> Result<(), InvalidResponse> {
    let mut lines = headers.get_all(header::CONTENT_LENGTH).into_iter();
    let Some(length) = lines.next() else { return Ok(()) };
    if is_length(length.as_bytes()) && lines.next().is_none() {
        return Ok(());
    }
    let one = one_length(headers).ok_or(InvalidResponse::Framing)?;
    headers.insert(header::CONTENT_LENGTH, one);
    Ok(())
}

/// The length, if all lines and entries agree.
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

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    #[test]
    fn response_has_exactly_one_end() {
        let framed = |fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            check_framing(&mut headers)
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
            assert_eq!(framed(&bad), Err(InvalidResponse::Framing), "{bad:?}");
        }
    }
}
