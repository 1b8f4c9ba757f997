//! The attacks, by name.

use std::fmt;
use std::str::FromStr;

/// What each client of an attack does with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attack {
    /// Sends nothing.
    Idle,
    /// Begins a TLS record and sends no more.
    HalfOpenHandshake,
    /// Sends half of an HTTP/1.1 head and no more.
    HalfOpenHead,
    /// Sends an HTTP/1.1 head that never ends, byte by byte.
    DrippingHead,
    /// Opens HTTP/2, replies to PINGs, and sends no request.
    SilentHttp2,
    /// Sends HTTP/1.1 header lines without an end.
    HeaderFlood,
    /// Sends CONTINUATION frames without an end.
    ContinuationFlood,
    /// Opens HTTP/2 streams and resets each at once.
    RapidReset,
    /// Opens HTTP/2 streams whose requests never end.
    UnfinishedStreams,
    /// Sends PING and SETTINGS frames, each of which requires a reply.
    PingFlood,
    /// Sends requests with a bearer token each, all of them different.
    Tokens,
    /// Sends requests with the headers that our parts exchange.
    SpoofedHeaders,
    /// Sends admission reviews that take many times their length when they are decoded.
    Reviews,
    /// Sends queries of statistics and random bytes as datagrams.
    Datagrams,
    /// Sends forged statistics to all ports at which a collector may expect them.
    ForgedStatistics,
}

/// The text is not the name of an attack.
#[derive(Debug, thiserror::Error)]
#[error("unknown attack {0:?}")]
pub struct UnknownAttack(String);

// === impl Attack ===

impl Attack {
    /// All attacks.
    pub const ALL: [Self; 15] = [
        Self::Idle,
        Self::HalfOpenHandshake,
        Self::HalfOpenHead,
        Self::DrippingHead,
        Self::SilentHttp2,
        Self::HeaderFlood,
        Self::ContinuationFlood,
        Self::RapidReset,
        Self::UnfinishedStreams,
        Self::PingFlood,
        Self::Tokens,
        Self::SpoofedHeaders,
        Self::Reviews,
        Self::Datagrams,
        Self::ForgedStatistics,
    ];

    /// The name in commands and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::HalfOpenHandshake => "half-open-handshake",
            Self::HalfOpenHead => "half-open-head",
            Self::DrippingHead => "dripping-head",
            Self::SilentHttp2 => "silent-http2",
            Self::HeaderFlood => "header-flood",
            Self::ContinuationFlood => "continuation-flood",
            Self::RapidReset => "rapid-reset",
            Self::UnfinishedStreams => "unfinished-streams",
            Self::PingFlood => "ping-flood",
            Self::Tokens => "tokens",
            Self::SpoofedHeaders => "spoofed-headers",
            Self::Reviews => "reviews",
            Self::Datagrams => "datagrams",
            Self::ForgedStatistics => "forged-statistics",
        }
    }

    /// Whether the client speaks HTTP/2, which a TLS handshake negotiates.
    pub fn is_http2(self) -> bool {
        matches!(
            self,
            Self::SilentHttp2
                | Self::ContinuationFlood
                | Self::RapidReset
                | Self::UnfinishedStreams
                | Self::PingFlood
        )
    }

    /// Whether the attack takes places of a server, and not its CPU time.
    pub fn holds_connections(self) -> bool {
        matches!(
            self,
            Self::Idle
                | Self::HalfOpenHandshake
                | Self::HalfOpenHead
                | Self::DrippingHead
                | Self::SilentHttp2
        )
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Attack {
    type Err = UnknownAttack;

    fn from_str(text: &str) -> Result<Self, UnknownAttack> {
        Self::ALL.into_iter().find(|attack| attack.name() == text).ok_or_else(|| UnknownAttack(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_its_attack() {
        for attack in Attack::ALL {
            assert_eq!(attack.name().parse::<Attack>().unwrap(), attack);
        }
        assert!("x".parse::<Attack>().is_err());
    }
}
