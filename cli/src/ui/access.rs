//! Access: which requests may read the page on a port that every process of the machine can reach.
//!
//! - The path begins with a random token, which the command prints to its user's terminal. Other
//!   users of the machine do not have it. A cookie would not do: browsers send cookies of one port
//!   to all other ports of the host.
//! - The Host header names loopback. A web site that lets its own name resolve to 127.0.0.1 (DNS
//!   rebinding) is refused before the token is compared.

use std::fmt::Write as _;

use rand::Rng as _;

/// Random bytes of the token.
const TOKEN_BYTES: usize = 24;

/// Checks requests.
#[derive(Debug)]
pub(super) struct Access {
    token: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AccessError {
    /// The Host header is absent, or names another host.
    #[error("the Host header must be 127.0.0.1, [::1] or localhost")]
    Host,
    /// The path does not begin with the token.
    #[error("not found; the address is the one that kubectl rouse ui printed")]
    Token,
}

// === impl Access ===

impl Access {
    /// With a new token.
    pub(super) fn random() -> Self {
        let mut bytes = [0; TOKEN_BYTES];
        rand::rng().fill_bytes(&mut bytes);
        let mut token = String::with_capacity(2 * TOKEN_BYTES);
        for byte in bytes {
            // Writing into a String cannot fail.
            let _ = write!(token, "{byte:02x}");
        }
        Self { token }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The path behind the token.
    pub(super) fn check<'a>(&self, host: Option<&str>, path: &'a str) -> Result<&'a str, AccessError> {
        if !host.is_some_and(is_loopback) {
            return Err(AccessError::Host);
        }
        let path = path.strip_prefix('/').ok_or(AccessError::Token)?;
        let (token, rest) = path.split_once('/').unwrap_or((path, ""));
        if is_equal(token.as_bytes(), self.token.as_bytes()) { Ok(rest) } else { Err(AccessError::Token) }
    }
}

/// Whether a Host header names loopback, with any port: a forwarded port is another one.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["127.0.0.1", "[::1]", "localhost"].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Compares in a time that does not depend on where the difference is.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_accepted_as_host() {
        for host in ["127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "[::1]", "localhost:1", "LOCALHOST"] {
            assert!(is_loopback(host), "{host}");
        }
        let others =
            ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "127.0.0.1:x", "", ":80"];
        for host in others.into_iter().chain(["0.0.0.0:8080", "127.0.0.1:80:80", "::1", "user@localhost"]) {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn path_needs_the_whole_token() {
        let access = Access::random();
        let token = access.token().to_owned();
        let check = |path: &str| access.check(Some("localhost:1"), path).map(str::to_owned);
        assert_eq!(token.len(), 48);
        assert_eq!(check(&format!("/{token}/")), Ok(String::new()));
        assert_eq!(check(&format!("/{token}")), Ok(String::new()));
        assert_eq!(check(&format!("/{token}/api/workloads")), Ok("api/workloads".to_owned()));
        for path in ["/", "", "*", "/api/workloads", &format!("/{}/", &token[1..]), &format!("//{token}/")] {
            assert_eq!(check(path), Err(AccessError::Token), "{path}");
        }
        assert_ne!(Access::random().token(), token);
        assert_eq!(access.check(None, &format!("/{token}/")), Err(AccessError::Host));
        assert_eq!(access.check(Some("evil.example"), &format!("/{token}/")), Err(AccessError::Host));
    }
}
