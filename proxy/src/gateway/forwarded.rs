//! Forwarding headers: `X-Forwarded-For`, `X-Forwarded-Proto` and `Forwarded`.
//!
//! Apps that trust a fixed number of proxies count entries from the end. So the proxies of one
//! request add one entry together: the address that connected to the first of them, which is always
//! the last one. `Forwarded` is extended where the client sent it and not added otherwise: the `X-`
//! headers carry the same.

use std::net::IpAddr;

use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Adds the client's address (`entry` is its text).
pub(super) fn add(headers: &mut HeaderMap, (peer, entry): &(IpAddr, HeaderValue)) {
    append(headers, X_FORWARDED_FOR, entry);
    if headers.contains_key(header::FORWARDED) {
        // IPv6 addresses are in brackets and therefore quoted (RFC 7239, 6).
        let node = if peer.is_ipv6() { format!("for=\"[{peer}]\"") } else { format!("for={peer}") };
        if let Ok(node) = HeaderValue::try_from(node) {
            append(headers, header::FORWARDED, &node);
        }
    }
}

/// Adds the protocol of a request, unless an earlier proxy has named it. The connection has no TLS;
/// a proxy that ended it may say so by the scheme of the request.
pub(super) fn add_protocol(headers: &mut HeaderMap, is_https: bool) {
    let protocol = HeaderValue::from_static(if is_https { "https" } else { "http" });
    let named = headers.entry(X_FORWARDED_PROTO).or_insert_with(|| protocol.clone());
    if named.is_empty() {
        *named = protocol;
    }
}

/// Entries of `X-Forwarded-For`: proxies that a request has passed, by their own account.
pub(super) fn hops(headers: &HeaderMap) -> usize {
    let entries = |line: &HeaderValue| 1 + line.as_bytes().iter().filter(|byte| **byte == b',').count();
    headers.get_all(X_FORWARDED_FOR).iter().map(entries).sum()
}

/// Whether `X-Forwarded-For` has any entry.
pub(super) fn names_client(headers: &HeaderMap) -> bool {
    headers.get_all(X_FORWARDED_FOR).iter().any(|line| !line.is_empty())
}

/// The last entry of `X-Forwarded-For`: the client of the proxy that sent these headers.
pub(super) fn last_client(headers: &HeaderMap) -> Option<IpAddr> {
    let line = headers.get_all(X_FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    line.rsplit(',').next()?.trim().parse().ok()
}

/// Joins all entries into one line: many apps read only the first of several.
fn append(headers: &mut HeaderMap, name: HeaderName, entry: &HeaderValue) {
    match headers.entry(name) {
        Entry::Vacant(vacant) => {
            vacant.insert(entry.clone());
        }
        Entry::Occupied(mut lines) => {
            if let Ok(all) = HeaderValue::try_from(join(lines.iter(), entry)) {
                lines.insert(all);
            }
        }
    }
}

fn join<'a>(lines: impl Iterator<Item = &'a HeaderValue>, last: &HeaderValue) -> Vec<u8> {
    let mut all = Vec::new();
    for line in lines.filter(|line| line.to_str().is_ok_and(|line| !line.is_empty() && is_closed(line))) {
        all.extend_from_slice(line.as_bytes());
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(last.as_bytes());
    all
}

/// Whether each quoted string of a line ends: the next entry would be read as a part of it.
fn is_closed(line: &str) -> bool {
    let (mut in_quotes, mut bytes) = (false, line.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_quotes = !in_quotes,
            b'\\' if in_quotes => {
                bytes.next();
            }
            _ => {}
        }
    }
    !in_quotes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &'static str) -> (IpAddr, HeaderValue) {
        (address.parse().unwrap(), HeaderValue::from_static(address))
    }

    #[test]
    fn appends_client_address_to_existing_entries() {
        let mut headers = HeaderMap::new();
        add(&mut headers, &peer("10.0.0.1"));
        assert_eq!(headers[X_FORWARDED_FOR], "10.0.0.1");
        headers.append(X_FORWARDED_FOR, HeaderValue::from_static("10.0.0.2"));
        add(&mut headers, &peer("fd00::1"));
        assert_eq!(
            headers.get_all(X_FORWARDED_FOR).iter().collect::<Vec<_>>(),
            ["10.0.0.1, 10.0.0.2, fd00::1"]
        );
    }

    #[test]
    fn last_client_is_the_last_entry_of_the_last_line() {
        let mut headers = HeaderMap::new();
        assert_eq!(last_client(&headers), None);
        for (line, last) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("10.0.0.1, 10.0.0.2", Some("10.0.0.2")),
            ("10.0.0.1,fd00::1 ", Some("fd00::1")),
            ("10.0.0.1, unknown", None),
            ("10.0.0.1, ", None),
        ] {
            headers.append(X_FORWARDED_FOR, HeaderValue::from_static(line));
            assert_eq!(last_client(&headers), last.map(|last| last.parse().unwrap()), "{line:?}");
        }
    }

    #[test]
    fn extends_forwarded_only_if_present() {
        let mut headers = HeaderMap::new();
        add(&mut headers, &peer("10.0.0.1"));
        assert!(!headers.contains_key(header::FORWARDED));
        // F1 of Knative's ForwardedShim, as if it had been sent.
        headers.insert(
            header::FORWARDED,
            HeaderValue::from_static("for=127.0.0.1;host=h;proto=p, for=\"[::1]\""),
        );
        add(&mut headers, &peer("fd00::1"));
        assert_eq!(
            headers[header::FORWARDED],
            "for=127.0.0.1;host=h;proto=p, for=\"[::1]\", for=\"[fd00::1]\""
        );
        for (line, all) in [
            (r#"for="a, b""#, r#"for="a, b", for=10.0.0.1"#),
            (r#"for="a\"b""#, r#"for="a\"b", for=10.0.0.1"#),
            // Their quotes would hide the next entry.
            (r#"for="a"#, "for=10.0.0.1"),
            (r#"for="a\""#, "for=10.0.0.1"),
        ] {
            headers.insert(header::FORWARDED, HeaderValue::from_static(line));
            add(&mut headers, &peer("10.0.0.1"));
            assert_eq!(headers[header::FORWARDED], all, "{line}");
        }
    }
}
