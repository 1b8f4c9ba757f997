//! Syntax of `host[:port]`, as in Host and in authorities (RFC 9110, 7.2; RFC 3986, 3.2.2).

use std::net::Ipv6Addr;

/// True for a host with or without a port. No user and no list: nothing that another parser could
/// take for the end of the host. Empty is valid, as the Host of a request without an authority.
pub(super) fn is_valid(value: &[u8]) -> bool {
    let Some((host, port)) = split(value) else { return false };
    match host {
        [b'[', address @ .., b']'] => is_port(port) && is_ipv6(address),
        [] => value.is_empty(),
        name => is_port(port) && is_name(name),
    }
}

/// Splits into the host, with its brackets, and the text behind the colon.
fn split(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = match value.first() {
        Some(b'[') => value.iter().position(|byte| *byte == b']')? + 1,
        _ => value.iter().position(|byte| *byte == b':').unwrap_or(value.len()),
    };
    let (host, rest) = value.split_at_checked(end)?;
    match rest {
        [] => Some((host, rest)),
        [b':', port @ ..] => Some((host, port)),
        _ => None,
    }
}

fn is_port(port: &[u8]) -> bool {
    let digits = || {
        port.iter().try_fold(0_u16, |sum, byte| {
            let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
            sum.checked_mul(10)?.checked_add(digit)
        })
    };
    port.len() <= 5 && digits().is_some()
}

fn is_ipv6(address: &[u8]) -> bool {
    std::str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// A registered name or an IPv4 address. The grammar allows a comma; here it is rejected, because
/// it separates list entries.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_hosts_and_rejects_lookalikes() {
        for good in ["", "a", "a.b-c_d:80", "10.0.0.1", "[::1]", "[fd00::1]:8080", "a:", "w%65b", "a:65535"] {
            assert!(is_valid(good.as_bytes()), "{good}");
        }
        for bad in [
            ":80", "a:b", "a:65536", "a:000080", "a:1:2", "::1", "[::1", "[::1]a", "[x]", "[]", "a b", "a/b",
            "a@b", "a?b", "a#b", "a,b", "a\\b", "\"a\"", "a\u{e9}",
        ] {
            assert!(!is_valid(bad.as_bytes()), "{bad}");
        }
    }
}
