//! Protocol: what is spoken on a Service's port, as far as it matters to us: HTTP, or bytes that we pass as they are.
//!
//! Of a Service it is the port's `appProtocol`; the zero-scaler writes it into the port's lease, where the activators read
//! it. A pod's sidecar is told by the annotation [`PROTOCOL`](crate::contract::PROTOCOL). TLS is bytes: nobody but its two
//! ends can read what is in it. An `appProtocol` that we do not know is bytes as well, for whatever it is, we do not speak it.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The values of `appProtocol` that are HTTP without TLS, which is what the proxies speak.
const HTTP: [&str; 8] =
    ["http", "http2", "h2c", "grpc", "grpc-web", "ws", "kubernetes.io/h2c", "kubernetes.io/ws"];

/// What is spoken on a port.
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

/// A text that names neither.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither http nor tcp")]
pub struct ParseProtocolError(String);

// === impl Protocol ===

impl Protocol {
    /// By a port's `appProtocol`. One that says nothing speaks HTTP.
    pub fn of_app_protocol(app_protocol: Option<&str>) -> Self {
        let is_http = |said: &str| said.is_empty() || HTTP.iter().any(|http| http.eq_ignore_ascii_case(said));
        if app_protocol.is_none_or(is_http) { Self::Http } else { Self::Tcp }
    }

    /// Whether it is HTTP, which need not be said.
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
    fn what_is_not_plain_http_is_bytes() {
        assert_eq!(Protocol::of_app_protocol(None), Protocol::Http);
        for http in HTTP.into_iter().chain(["HTTP", "gRPC"]) {
            assert_eq!(Protocol::of_app_protocol(Some(http)), Protocol::Http, "{http}");
        }
        // A websocket in TLS begins with TLS.
        for tcp in ["tcp", "tls", "https", "redis", "postgresql", "mysql", "kubernetes.io/wss", "acme.io/x"] {
            assert_eq!(Protocol::of_app_protocol(Some(tcp)), Protocol::Tcp, "{tcp}");
        }
    }

    #[test]
    fn its_name_is_the_same_in_flags_annotations_and_objects() {
        for protocol in [Protocol::Http, Protocol::Tcp] {
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
            assert_eq!(serde_json::to_value(protocol).unwrap(), protocol.to_string());
        }
        assert_eq!("TCP".parse::<Protocol>(), Err(ParseProtocolError("TCP".to_owned())));
    }
}
