//! ReadinessProbe: a readiness probe as Kubernetes writes it, in JSON, and what of it concerns us.
//!
//! Whom and what to ask, how long to wait for an answer, and how many a start takes: that is ours. When to ask and how
//! often to be told no is the matter of who asks us: the kubelet keeps the period and the failure threshold.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Kubernetes' default, and ours without a probe.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How the app is asked whether it takes requests.
#[derive(Clone, Debug)]
pub(crate) struct ReadinessProbe {
    pub(crate) question: Question,
    /// Longest wait for one answer.
    pub(crate) timeout: Duration,
    /// Answers in a row that a start takes.
    pub(crate) successes: u32,
}

/// What is asked, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    /// An accepted connection is enough.
    Tcp(SocketAddr),
    /// A status of 200 to 399.
    Http { address: SocketAddr, path: Uri, headers: HeaderMap },
    /// SERVING, by grpc.health.v1.
    Grpc { address: SocketAddr, service: String },
}

/// Why a probe cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error("it is no probe: {0}")]
    NotAProbe(#[from] serde_json::Error),
    #[error("it must have exactly one of httpGet, tcpSocket and grpc")]
    NotOne,
    #[error("exec runs in the app's container, so it must stay on that")]
    Exec,
    #[error("the app is asked at its own address, so no host may be named")]
    Host,
    #[error("scheme {0}: the app is asked by plain HTTP only")]
    Scheme(String),
    #[error(
        "port {0:?}: names of ports are known to Kubernetes alone, so it must be a number from 1 to 65535"
    )]
    Port(String),
    #[error("path {0:?} is none")]
    Path(String),
    #[error("header {0:?} is none")]
    Header(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
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
    /// The app is ready when it accepts a connection.
    pub(crate) fn tcp(address: SocketAddr) -> Self {
        Self { question: Question::Tcp(address), timeout: TIMEOUT, successes: 1 }
    }

    /// The app is ready when it answers `path` well.
    ///
    /// # Errors
    /// When that is no path.
    pub(crate) fn http(address: SocketAddr, path: &str) -> Result<Self, ProbeError> {
        let question = Question::Http { address, path: uri(path)?, headers: HeaderMap::new() };
        Ok(Self { question, ..Self::tcp(address) })
    }

    /// Reads a probe of the app at `app`.
    ///
    /// # Errors
    /// When it is none, or asks for what cannot be done from here.
    pub(crate) fn from_json(json: &str, app: IpAddr) -> Result<Self, ProbeError> {
        let wire: Wire = serde_json::from_str(json)?;
        let question = match (wire.http_get, wire.tcp_socket, wire.grpc, wire.exec) {
            (Some(get), None, None, None) => get.question(app)?,
            (None, Some(socket), None, None) => socket.question(app)?,
            (None, None, Some(grpc), None) => grpc.question(app)?,
            (None, None, None, Some(_)) => return Err(ProbeError::Exec),
            _ => return Err(ProbeError::NotOne),
        };
        let timeout = wire.timeout_seconds.map(|seconds| Duration::from_secs(seconds.get().into()));
        let successes = wire.success_threshold.map_or(1, NonZeroU32::get);
        Ok(Self { question, timeout: timeout.unwrap_or(TIMEOUT), successes })
    }
}

// === impl HttpGet ===

impl HttpGet {
    fn question(self, app: IpAddr) -> Result<Question, ProbeError> {
        no_host(self.host.as_deref())?;
        if let Some(scheme) = self.scheme.filter(|scheme| !scheme.is_empty() && scheme != "HTTP") {
            return Err(ProbeError::Scheme(scheme));
        }
        let mut headers = HeaderMap::new();
        for Header { name, value } in self.http_headers {
            let bad = || ProbeError::Header(name.clone());
            headers.append(
                HeaderName::try_from(&name).map_err(|_| bad())?,
                HeaderValue::try_from(&value).map_err(|_| bad())?,
            );
        }
        let path = self.path.filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        Ok(Question::Http { address: self.port.of(app)?, path: uri(&path)?, headers })
    }
}

// === impl TcpSocket ===

impl TcpSocket {
    fn question(self, app: IpAddr) -> Result<Question, ProbeError> {
        no_host(self.host.as_deref())?;
        Ok(Question::Tcp(self.port.of(app)?))
    }
}

// === impl Grpc ===

impl Grpc {
    fn question(self, app: IpAddr) -> Result<Question, ProbeError> {
        Ok(Question::Grpc { address: self.port.of(app)?, service: self.service.unwrap_or_default() })
    }
}

// === impl Port ===

impl Port {
    fn of(self, app: IpAddr) -> Result<SocketAddr, ProbeError> {
        match self {
            Self::Number(port) => Ok(SocketAddr::new(app, port.get())),
            Self::Other(other) => Err(ProbeError::Port(other.to_string())),
        }
    }
}

fn no_host(host: Option<&str>) -> Result<(), ProbeError> {
    if host.is_none_or(str::is_empty) { Ok(()) } else { Err(ProbeError::Host) }
}

fn uri(path: &str) -> Result<Uri, ProbeError> {
    let bad = || ProbeError::Path(path.to_owned());
    if !path.starts_with('/') {
        return Err(bad());
    }
    PathAndQuery::try_from(path).map(Uri::from).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn read(json: &str) -> Result<ReadinessProbe, ProbeError> {
        ReadinessProbe::from_json(json, Ipv4Addr::LOCALHOST.into())
    }

    #[test]
    fn a_probe_is_read_as_kubernetes_writes_it() {
        let probe = read(
            r#"{"httpGet": {"path": "/healthz?a=b", "port": 8081, "scheme": "HTTP", "httpHeaders": [
                {"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"}]}, "initialDelaySeconds": 5,
                "timeoutSeconds": 3, "periodSeconds": 10, "successThreshold": 2, "failureThreshold": 3}"#,
        )
        .unwrap();
        assert_eq!((probe.timeout, probe.successes), (Duration::from_secs(3), 2));
        let Question::Http { address, path, headers } = probe.question else { panic!("{probe:?}") };
        assert_eq!(
            (address.to_string().as_str(), path.to_string().as_str()),
            ("127.0.0.1:8081", "/healthz?a=b")
        );
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
    }

    #[test]
    fn what_is_left_out_is_as_in_kubernetes() {
        let probe = read(r#"{"httpGet": {"port": 80}}"#).unwrap();
        assert_eq!((probe.timeout, probe.successes), (Duration::from_secs(1), 1));
        assert!(matches!(probe.question, Question::Http { path, .. } if path == "/"));
        let tcp = read(r#"{"tcpSocket": {"port": 80}}"#).unwrap().question;
        assert_eq!(tcp, Question::Tcp("127.0.0.1:80".parse().unwrap()));
        let grpc = read(r#"{"grpc": {"port": 80, "service": null}}"#).unwrap().question;
        let expected = Question::Grpc { address: "127.0.0.1:80".parse().unwrap(), service: String::new() };
        assert_eq!(grpc, expected);
    }

    #[test]
    fn what_cannot_be_asked_from_here_is_refused_with_the_reason() {
        for (json, reason) in [
            ("", "no probe"),
            ("{}", "exactly one"),
            (r#"{"tcpSocket": {"port": 80}, "grpc": {"port": 80}}"#, "exactly one"),
            (r#"{"exec": {"command": ["true"]}}"#, "must stay"),
            (r#"{"httpGet": {"port": 80, "scheme": "HTTPS"}}"#, "HTTPS"),
            (r#"{"httpGet": {"port": 80, "host": "db"}}"#, "host"),
            (r#"{"tcpSocket": {"port": "http"}}"#, "port \"\\\"http\\\"\""),
            (r#"{"tcpSocket": {"port": 0}}"#, "port"),
            (r#"{"httpGet": {"port": 80, "path": "/a b"}}"#, "path"),
            (r#"{"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": ""}]}}"#, "header"),
            (r#"{"httpget": {"port": 80}}"#, "unknown field"),
            (r#"{"grpc": {"port": 80}, "timeoutSeconds": 0}"#, "no probe"),
        ] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}
