//! ReadinessProbe: parses a container's `readinessProbe`, given as JSON.
//!
//! The sidecar uses the action, `timeoutSeconds` and `successThreshold`. It accepts and ignores
//! `periodSeconds`, `failureThreshold` and `initialDelaySeconds`, because the kubelet applies them
//! when it calls `/app-ready`.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use proxy::app_probe::{InvalidHttpGet, ProbeAction};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Kubernetes' default of `timeoutSeconds`.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How to probe the app.
#[derive(Clone, Debug)]
pub(crate) struct ReadinessProbe {
    pub(crate) action: ProbeAction,
    /// Longest time of one probe.
    pub(crate) timeout: Duration,
    /// Successful probes in a row that a start takes.
    pub(crate) successes: u32,
}

/// Why a probe cannot be used, and the fix.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidProbe {
    #[error("invalid readiness probe: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("the probe must have exactly one of httpGet, tcpSocket and grpc")]
    NotOneAction,
    #[error("exec probes run in the app's container; keep this probe on the app's container")]
    Exec,
    #[error("the probe goes to the app's own address; remove its host field")]
    Host,
    #[error("scheme {0} is not supported; use HTTP or a tcpSocket probe")]
    Scheme(String),
    #[error(
        "port {0} is invalid: port names are not available to the sidecar; the port must be a number from 1 to 65535"
    )]
    Port(String),
    #[error(transparent)]
    HttpGet(#[from] InvalidHttpGet),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProbeFields {
    http_get: Option<HttpGet>,
    tcp_socket: Option<TcpSocket>,
    grpc: Option<Grpc>,
    exec: Option<IgnoredAny>,
    timeout_seconds: Option<NonZeroU32>,
    success_threshold: Option<NonZeroU32>,
    #[serde(rename = "initialDelaySeconds")]
    _initial_delay_seconds: Option<IgnoredAny>,
    #[serde(rename = "periodSeconds")]
    _period_seconds: Option<IgnoredAny>,
    #[serde(rename = "failureThreshold")]
    _failure_threshold: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HttpGet {
    path: Option<String>,
    port: Port,
    host: Option<String>,
    scheme: Option<String>,
    #[serde(default)]
    http_headers: Vec<Header>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpSocket {
    port: Port,
    host: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grpc {
    port: Port,
    service: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Port {
    Number(NonZeroU16),
    Other(serde_json::Value),
}

// === impl ReadinessProbe ===

impl ReadinessProbe {
    /// A probe that succeeds when the app accepts a connection.
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        Self { action: ProbeAction::Tcp(address), timeout: TIMEOUT, successes: 1 }
    }

    /// A probe that succeeds when a GET of `path` has a status of 200 to 399.
    ///
    /// # Errors
    /// When the path is invalid.
    pub(crate) fn http(address: SocketAddr, path: &str) -> Result<Self, InvalidProbe> {
        if !path.starts_with('/') {
            return Err(InvalidHttpGet::Path(path.to_owned()).into());
        }
        let action = ProbeAction::http_get(address, Some(path), [])?;
        Ok(Self { action, ..Self::tcp(address) })
    }

    /// Parses a probe of the app at `app`.
    ///
    /// # Errors
    /// When the JSON is not a probe, or the sidecar does not support it.
    pub(crate) fn from_json(json: &str, app: IpAddr) -> Result<Self, InvalidProbe> {
        let fields: ProbeFields = serde_json::from_str(json)?;
        let action = match (fields.http_get, fields.tcp_socket, fields.grpc, fields.exec) {
            (Some(get), None, None, None) => get.action(app)?,
            (None, Some(socket), None, None) => socket.action(app)?,
            (None, None, Some(grpc), None) => grpc.action(app)?,
            (None, None, None, Some(_)) => return Err(InvalidProbe::Exec),
            _ => return Err(InvalidProbe::NotOneAction),
        };
        let timeout = fields.timeout_seconds.map(|seconds| Duration::from_secs(seconds.get().into()));
        let successes = fields.success_threshold.map_or(1, NonZeroU32::get);
        Ok(Self { action, timeout: timeout.unwrap_or(TIMEOUT), successes })
    }
}

// === impl HttpGet ===

impl HttpGet {
    fn action(self, app: IpAddr) -> Result<ProbeAction, InvalidProbe> {
        no_host(self.host.as_deref())?;
        if let Some(scheme) = self.scheme.filter(|scheme| !scheme.is_empty() && scheme != "HTTP") {
            return Err(InvalidProbe::Scheme(scheme));
        }
        let headers = self.http_headers.iter().map(|header| (header.name.as_str(), header.value.as_str()));
        Ok(ProbeAction::http_get(self.port.of(app)?, self.path.as_deref(), headers)?)
    }
}

// === impl TcpSocket ===

impl TcpSocket {
    fn action(self, app: IpAddr) -> Result<ProbeAction, InvalidProbe> {
        no_host(self.host.as_deref())?;
        Ok(ProbeAction::Tcp(self.port.of(app)?))
    }
}

// === impl Grpc ===

impl Grpc {
    fn action(self, app: IpAddr) -> Result<ProbeAction, InvalidProbe> {
        Ok(ProbeAction::Grpc { address: self.port.of(app)?, service: self.service.unwrap_or_default() })
    }
}

// === impl Port ===

impl Port {
    fn of(self, app: IpAddr) -> Result<SocketAddr, InvalidProbe> {
        match self {
            Self::Number(port) => Ok(SocketAddr::new(app, port.get())),
            Self::Other(other) => Err(InvalidProbe::Port(other.to_string())),
        }
    }
}

fn no_host(host: Option<&str>) -> Result<(), InvalidProbe> {
    if host.is_none_or(str::is_empty) { Ok(()) } else { Err(InvalidProbe::Host) }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn read(json: &str) -> Result<ReadinessProbe, InvalidProbe> {
        ReadinessProbe::from_json(json, Ipv4Addr::LOCALHOST.into())
    }

    #[test]
    fn parses_all_fields_of_a_probe() {
        let probe = read(
            r#"{"httpGet": {"path": "/healthz?a=b", "port": 8081, "scheme": "HTTP", "httpHeaders": [
                {"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"}]}, "initialDelaySeconds": 5,
                "timeoutSeconds": 3, "periodSeconds": 10, "successThreshold": 2, "failureThreshold": 3}"#,
        )
        .unwrap();
        assert_eq!((probe.timeout, probe.successes), (Duration::from_secs(3), 2));
        let ProbeAction::Http { address, path, headers } = probe.action else { panic!("{probe:?}") };
        assert_eq!(
            (address.to_string().as_str(), path.to_string().as_str()),
            ("127.0.0.1:8081", "/healthz?a=b")
        );
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
    }

    #[test]
    fn applies_kubernetes_defaults_to_absent_fields() {
        let probe = read(r#"{"httpGet": {"port": 80}}"#).unwrap();
        assert_eq!((probe.timeout, probe.successes), (Duration::from_secs(1), 1));
        assert!(matches!(probe.action, ProbeAction::Http { path, .. } if path == "/"));
        let tcp = read(r#"{"tcpSocket": {"port": 80}}"#).unwrap().action;
        assert_eq!(tcp, ProbeAction::Tcp("127.0.0.1:80".parse().unwrap()));
        let grpc = read(r#"{"grpc": {"port": 80, "service": null}}"#).unwrap().action;
        let expected = ProbeAction::Grpc { address: "127.0.0.1:80".parse().unwrap(), service: String::new() };
        assert_eq!(grpc, expected);
    }

    #[test]
    fn rejects_unsupported_probes_with_the_reason() {
        for (json, reason) in [
            ("", "invalid readiness probe"),
            ("{}", "exactly one"),
            (r#"{"tcpSocket": {"port": 80}, "grpc": {"port": 80}}"#, "exactly one"),
            (r#"{"exec": {"command": ["true"]}}"#, "keep this probe"),
            (r#"{"httpGet": {"port": 80, "scheme": "HTTPS"}}"#, "HTTPS"),
            (r#"{"httpGet": {"port": 80, "host": "db"}}"#, "host"),
            (r#"{"tcpSocket": {"port": "http"}}"#, "port \"http\""),
            (r#"{"tcpSocket": {"port": 0}}"#, "port"),
            (r#"{"httpGet": {"port": 80, "path": "/a b"}}"#, "path"),
            (r#"{"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": ""}]}}"#, "header"),
            (r#"{"httpget": {"port": 80}}"#, "unknown field"),
            (r#"{"grpc": {"port": 80}, "timeoutSeconds": 0}"#, "invalid readiness probe"),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}
