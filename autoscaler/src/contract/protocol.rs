//! Protocol of a Service port: HTTP, or TCP that is relayed as unmodified bytes.
//!
//! zero-scaler derives it from `appProtocol` of the Service port and writes it into the port's
//! lease, where activators read it. A sidecar reads it from the pod annotation
//! [`PROTOCOL`](crate::contract::PROTOCOL). TLS is TCP, because the proxies cannot decrypt it. An
//! unrecognized `appProtocol` is TCP as well.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values of `appProtocol` that mean HTTP without TLS.
const HTTP: [&str; 8] =
    ["http", "http2", "h2c", "grpc", "grpc-web", "ws", "kubernetes.io/h2c", "kubernetes.io/ws"];

/// Protocol of a Service port, as the proxies handle it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1, HTTP/2, gRPC or websockets, without TLS: counted and limited by requests.
    #[default]
    Http,
    /// Anything else: counted and limited by connections.
    Tcp,
}

/// Error for a text that is neither `http` nor `tcp`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither http nor tcp")]
pub struct ParseProtocolError(String);

// === impl Protocol ===

impl Protocol {
    /// The protocol for an `appProtocol`. Without a value it is HTTP.
    pub fn of_app_protocol(app_protocol: Option<&str>) -> Self {
        let is_http = |name: &str| name.is_empty() || HTTP.iter().any(|http| http.eq_ignore_ascii_case(name));
        if app_protocol.is_none_or(is_http) { Self::Http } else { Self::Tcp }
    }

    /// Whether this is HTTP, the default, which is omitted when serialized.
    pub fn is_http(&self) -> bool {
        *self == Self::Http
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
        })
    }
}

impl FromStr for Protocol {
    type Err = ParseProtocolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "http" => Ok(Self::Http),
            "tcp" => Ok(Self::Tcp),
            other => Err(ParseProtocolError(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_app_protocol_except_plain_http_is_tcp() {
        assert_eq!(Protocol::of_app_protocol(None), Protocol::Http);
        for http in HTTP.into_iter().chain(["HTTP", "gRPC"]) {
            assert_eq!(Protocol::of_app_protocol(Some(http)), Protocol::Http, "{http}");
        }
        // A websocket over TLS starts with a TLS handshake.
        for tcp in ["tcp", "tls", "https", "redis", "postgresql", "mysql", "kubernetes.io/wss", "acme.io/x"] {
            assert_eq!(Protocol::of_app_protocol(Some(tcp)), Protocol::Tcp, "{tcp}");
        }
    }

    #[test]
    fn text_form_equals_serialized_form() {
        for protocol in [Protocol::Http, Protocol::Tcp] {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
            assert_eq!(serde_json::to_value(protocol).unwrap(), protocol.to_string());
        }
        assert_eq!("TCP".parse::<Protocol>(), Err(ParseProtocolError("TCP".to_owned())));
    }
}
