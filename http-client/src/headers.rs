//! Header values that are lists (RFC 9110, 5.6.1). Used here for responses and in `proxy::gateway`
//! for requests.

use http::header::{self, HeaderMap};

/// True if a line of `name` has the entry `token`, in any case. Parameters of entries are ignored.
pub fn lists(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    entries(headers, name).any(|entry| {
        let entry = entry.split(';').next().unwrap_or_default();
        entry.trim().eq_ignore_ascii_case(token)
    })
}

/// The non-empty entries of a list header, from all of its lines.
pub fn entries(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|entry| !entry.is_empty())
}

pub fn is_chunked(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let first = lines.next().is_some_and(|line| line.as_bytes().eq_ignore_ascii_case(b"chunked"));
    first && lines.next().is_none()
}
