//! AppProbe: the app's readiness probe where the sidecar runs it for the kubelet.
//!
//! The kubelet's first probe would fail while the app starts, which delays readiness by a whole
//! period. The kubelet keeps exec and HTTPS probes, and probes of other hosts.

use autoscaler::contract::sidecar_ports::SidecarPorts;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

/// The sidecar waits up to 9 s for the app's start, so the kubelet waits for longer.
const START_WAIT: i32 = 9;

/// A probe that the sidecar can run.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppProbe<'a> {
    probe: &'a Probe,
    port: i32,
}

/// The probe as the sidecar reads it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SidecarProbe<'a> {
    #[serde(flatten)]
    action: ProbeAction<'a>,
    timeout_seconds: i32,
    success_threshold: i32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum ProbeAction<'a> {
    HttpGet { port: i32, path: &'a str, http_headers: Vec<ProbeHeader<'a>> },
    TcpSocket { port: i32 },
    Grpc { port: i32, service: &'a str },
}

#[derive(Debug, Serialize)]
struct ProbeHeader<'a> {
    name: &'a str,
    value: &'a str,
}

// === impl AppProbe ===

impl<'a> AppProbe<'a> {
    /// `None` if the container has no probe that the sidecar can run, or it names a port that the
    /// container does not declare exactly once.
    pub(super) fn of(app: &'a Container) -> Option<Self> {
        let probe = app.readiness_probe.as_ref().filter(|probe| is_supported(probe))?;
        let port = match (&probe.http_get, &probe.tcp_socket, &probe.grpc) {
            (Some(http), ..) => port_number(&http.port, app)?,
            (None, Some(tcp), _) => port_number(&tcp.port, app)?,
            (None, None, grpc) => grpc.as_ref()?.port,
        };
        Some(Self { probe, port })
    }

    /// The probe as the sidecar reads it, as JSON. The policy of CEL does not escape all control
    /// characters; this does.
    pub(super) fn json(&self) -> Result<String, serde_json::Error> {
        let Self { probe, port } = *self;
        let action = match (&probe.http_get, &probe.tcp_socket) {
            (Some(http), _) => http_get(http, port),
            (None, Some(_)) => ProbeAction::TcpSocket { port },
            (None, None) => {
                let service = probe.grpc.as_ref().and_then(|grpc| grpc.service.as_deref());
                ProbeAction::Grpc { port, service: service.unwrap_or_default() }
            }
        };
        serde_json::to_string(&SidecarProbe {
            action,
            timeout_seconds: number(probe.timeout_seconds, 1),
            success_threshold: number(probe.success_threshold, 1),
        })
    }

    /// The probe that replaces it in the app's container.
    pub(super) fn replacement(&self, sidecar: SidecarPorts) -> Probe {
        let timeout = number(self.probe.timeout_seconds, 1);
        Probe {
            http_get: Some(sidecar_action("/app-ready", sidecar)),
            initial_delay_seconds: self.probe.initial_delay_seconds.filter(|seconds| *seconds != 0),
            period_seconds: Some(number(self.probe.period_seconds, 10)),
            timeout_seconds: Some(if timeout < START_WAIT {
                START_WAIT + 1
            } else {
                timeout.saturating_add(1)
            }),
            success_threshold: Some(number(self.probe.success_threshold, 1)),
            failure_threshold: Some(number(self.probe.failure_threshold, 3)),
            ..Probe::default()
        }
    }
}

/// A request to the sidecar's admin port.
pub(super) fn sidecar_action(path: &str, sidecar: SidecarPorts) -> HTTPGetAction {
    let port = IntOrString::Int(sidecar.admin.into());
    HTTPGetAction { path: Some(path.to_owned()), port, ..HTTPGetAction::default() }
}

fn is_supported(probe: &Probe) -> bool {
    let is_plain_http = probe.http_get.as_ref().is_some_and(|http| {
        non_empty(http.scheme.as_ref()).unwrap_or("HTTP") == "HTTP" && non_empty(http.host.as_ref()).is_none()
    });
    let is_own_tcp = probe.tcp_socket.as_ref().is_some_and(|tcp| non_empty(tcp.host.as_ref()).is_none());
    is_plain_http || is_own_tcp || probe.grpc.is_some()
}

/// The number of a port, which may be a name that the container declares.
fn port_number(port: &IntOrString, app: &Container) -> Option<i32> {
    let name = match port {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(name) => name,
    };
    let ports = app.ports.iter().flatten();
    let mut named = ports.filter(|port| port.name.as_deref().unwrap_or_default() == name);
    let port = named.next()?.container_port;
    named.next().is_none().then_some(port)
}

fn http_get(http: &HTTPGetAction, port: i32) -> ProbeAction<'_> {
    let headers = http.http_headers.iter().flatten();
    ProbeAction::HttpGet {
        port,
        path: non_empty(http.path.as_ref()).unwrap_or("/"),
        http_headers: headers
            .map(|header| ProbeHeader { name: &header.name, value: &header.value })
            .collect(),
    }
}

/// A text; `None` for an empty one, which the API server's own types omit.
fn non_empty(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// A number of a probe, where 0 is the default as it is for the API server.
fn number(value: Option<i32>, default: i32) -> i32 {
    value.filter(|number| *number != 0).unwrap_or(default)
}
