//! One probe of an app, as the kubelet makes it: a connection, at most one request.
//!
//! queue-proxy probes the app of its own pod, the activator the apps of pods without a queue-proxy.
//! Both open the connection themselves, and bound the time of a probe.

mod grpc_health;
mod http_get;

use std::net::SocketAddr;

use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_client::BoxError;
use tokio::net::TcpStream;

/// What a probe does, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAction {
    /// Succeeds if the app accepts a connection.
    Tcp(SocketAddr),
    /// Succeeds with a status of 200 to 399.
    Http {
        /// Where the app listens.
        address: SocketAddr,
        /// Path and query.
        path: Uri,
        /// Headers of the request; others are added as by the kubelet.
        headers: HeaderMap,
    },
    /// Succeeds with SERVING of grpc.health.v1.
    Grpc {
        /// Where the app listens.
        address: SocketAddr,
        /// Name of the service; "" is the server as a whole.
        service: String,
    },
}

/// Why the fields of an `httpGet` probe do not make a request.
#[derive(Debug, thiserror::Error)]
pub enum InvalidHttpGet {
    #[error("path {0:?} is invalid; it must begin with \"/\" and must not contain blanks")]
    Path(String),
    /// A header, by its name.
    #[error("header {0:?} is invalid")]
    Header(String),
}

// === impl ProbeAction ===

impl ProbeAction {
    /// An `httpGet` probe from its fields, with Kubernetes' default of the path.
    ///
    /// # Errors
    /// When a request cannot have this path or these headers.
    pub fn http_get<'a>(
        address: SocketAddr,
        path: Option<&str>,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, InvalidHttpGet> {
        let path = path.unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let path = PathAndQuery::try_from(&path).map_err(|_| InvalidHttpGet::Path(path))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let invalid = || InvalidHttpGet::Header(name.to_owned());
            map.append(
                HeaderName::try_from(name).map_err(|_| invalid())?,
                HeaderValue::try_from(value).map_err(|_| invalid())?,
            );
        }
        Ok(Self::Http { address, path: path.into(), headers: map })
    }

    /// Where the probe connects to.
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Tcp(address) | Self::Http { address, .. } | Self::Grpc { address, .. } => *address,
        }
    }

    /// Whether the probe succeeds over `stream`, a new connection to its address.
    ///
    /// # Errors
    /// When the app does not speak the protocol, or closes the connection. It means unready as
    /// well.
    pub async fn succeeds_over(&self, stream: TcpStream, user_agent: &'static str) -> Result<bool, BoxError> {
        match self {
            Self::Tcp(_) => Ok(true),
            Self::Http { path, headers, .. } => {
                let status = http_get::get(stream, path, headers, user_agent).await?;
                Ok(status.is_success() || status.is_redirection())
            }
            Self::Grpc { service, .. } => grpc_health::is_serving(stream, service, user_agent).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(given: Option<&str>) -> Option<String> {
        let action = ProbeAction::http_get(([127, 0, 0, 1], 80).into(), given, []).ok()?;
        let ProbeAction::Http { path, .. } = action else { return None };
        Some(path.to_string())
    }

    #[test]
    fn path_of_probe_begins_with_a_slash() {
        for (given, expected) in [
            (None, Some("/")),
            (Some(""), Some("/")),
            (Some("healthz"), Some("/healthz")),
            (Some("/healthz?a=b"), Some("/healthz?a=b")),
            (Some("/a b"), None),
        ] {
            assert_eq!(path(given).as_deref(), expected, "{given:?}");
        }
    }
}
