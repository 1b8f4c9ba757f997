//! Problems of a Service: whether its requests can be led to activators and counted by the
//! sidecars.
//!
//! Input: the fields that matter, because the zero-scaler's cache keeps no others.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort};

use super::Problem;
use super::reasons::Reason;
use crate::api::targets_sidecar;

/// The fields of a Service that are checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceFields<'a> {
    /// Its name.
    pub name: &'a str,
    /// `ClusterIP` if absent.
    pub type_: Option<&'a str>,
    /// The first address, or the string `None`.
    pub cluster_ip: Option<&'a str>,
    /// Labels of its pods.
    pub selector: Option<&'a BTreeMap<String, String>>,
    /// `ClientIP`, `None`, or absent.
    pub session_affinity: Option<&'a str>,
    /// `Local`, `Cluster`, or absent.
    pub internal_traffic_policy: Option<&'a str>,
    /// Whether Kubernetes publishes pods that are not ready.
    pub publishes_not_ready: bool,
    /// All ports.
    pub ports: &'a [ServicePort],
}

// === impl ServiceFields ===

impl<'a> ServiceFields<'a> {
    /// Those of a whole Service.
    pub fn of(service: &'a Service) -> Self {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let Some(spec) = &service.spec else { return Self { name, ..Self::default() } };
        Self {
            name,
            type_: spec.type_.as_deref(),
            cluster_ip: spec.cluster_ip.as_deref(),
            selector: spec.selector.as_ref(),
            session_affinity: spec.session_affinity.as_deref(),
            internal_traffic_policy: spec.internal_traffic_policy.as_deref(),
            publishes_not_ready: spec.publish_not_ready_addresses == Some(true),
            ports: spec.ports.as_deref().unwrap_or_default(),
        }
    }

    /// Whether the zero-scaler owns the endpoints of the Service, which then has no selector.
    pub fn is_managed(&self) -> bool {
        self.selector.is_none_or(BTreeMap::is_empty)
    }

    /// The TCP ports.
    pub fn tcp_ports(&self) -> impl Iterator<Item = &'a ServicePort> + use<'a> {
        self.ports.iter().filter(|port| is_tcp(port))
    }

    /// The ports of other protocols, UDP and SCTP, which lead straight to pods.
    pub fn direct_ports(&self) -> impl Iterator<Item = &'a ServicePort> + use<'a> {
        self.ports.iter().filter(|port| !is_tcp(port))
    }

    /// Why no activator can serve the Service.
    pub fn unroutable(&self, has_sidecar: bool) -> Option<Problem> {
        let name = self.name;
        let (reason, problem) = if self.type_ == Some("ExternalName") {
            let problem = "has type ExternalName, so its clients reach neither pods nor activators";
            (Reason::ServiceIsExternal, problem)
        } else if self.cluster_ip == Some("None") {
            let problem = "is headless, so its clients select pods by DNS and reach no activator";
            (Reason::ServiceIsHeadless, problem)
        } else if !self.is_managed() && !has_sidecar {
            let problem =
                "selects pods without a sidecar, so requests bypass the activators and are not counted";
            (Reason::ServiceHasSelector, problem)
        } else {
            return None;
        };
        Some(Problem::with_usual_fix(reason, format!("Service {name:?} {problem}")))
    }

    /// Why no port can be leased. `traffic` is the sidecars' port.
    pub fn without_port(&self, traffic: u16) -> Option<Problem> {
        let name = self.name;
        if self.tcp_ports().next().is_none() {
            let problem = format!("Service {name:?} has no TCP port, and Rouse serves no other protocol");
            return Some(Problem::with_usual_fix(Reason::ServiceHasNoPort, problem));
        }
        let bypasses = !self.is_managed() && !self.tcp_ports().any(|port| targets_sidecar(port, traffic));
        bypasses.then(|| {
            let problem = format!(
                "all ports of Service {name:?} bypass the sidecar, so requests are neither counted nor held"
            );
            Problem::with_usual_fix(Reason::SidecarBypassed, problem)
        })
    }

    /// The settings that keep activators from holding requests, so that the workload stays above
    /// zero.
    pub fn keeps_above_zero(&self) -> Option<Problem> {
        if self.internal_traffic_policy == Some("Local") {
            let problem = "internalTrafficPolicy: Local routes requests to endpoints of the client's node, \
                           which may have no activator, so the workload stays above zero";
            return Some(Problem::with_usual_fix(Reason::InternalTrafficPolicyLocal, problem));
        }
        if self.publishes_not_ready && !self.is_managed() {
            let problem = "publishNotReadyAddresses leads clients to pods that are not ready, so requests of a \
                           wake would fail, and the workload stays above zero";
            return Some(Problem::with_usual_fix(Reason::NotReadyPublished, problem));
        }
        // In Proxy mode, endpoints that Rouse manages contain no pod that a client could be pinned
        // to.
        (self.session_affinity == Some("ClientIP") && !self.is_managed()).then(|| {
            let problem = "sessionAffinity: ClientIP pins clients to pods, so no probe can show that \
                           requests reach an activator, and the workload stays above zero";
            Problem::with_usual_fix(Reason::SessionAffinity, problem)
        })
    }
}

fn is_tcp(port: &ServicePort) -> bool {
    port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP")
}

/// Ports that lead past the sidecars, or that have another target and lead there all the same.
pub fn other_targets(ports: &[i32], is_managed: bool) -> Problem {
    if is_managed {
        let problem = format!(
            "a Service without selector routes all of its ports to the sidecar, which forwards to the app's port \
             alone, and ports {ports:?} have another targetPort"
        );
        return Problem::with_usual_fix(Reason::TargetPortIgnored, problem);
    }
    let problem = format!(
        "ports {ports:?} of the Service bypass the sidecar, so their requests are not counted, and refused at zero"
    );
    Problem::with_usual_fix(Reason::SidecarBypassed, problem)
}

/// A Service that does not exist.
pub fn not_found(name: &str) -> Problem {
    Problem::with_usual_fix(Reason::ServiceNotFound, format!("Service {name:?} does not exist"))
}

/// Endpoints of a Service with another writer.
pub fn foreign_endpoints(service: &str, objects: &str) -> Problem {
    let problem = format!(
        "requests of Service {service:?} also go to endpoints that neither Kubernetes nor Rouse writes: they \
         bypass Rouse, and may lead to pods that are gone"
    );
    Problem::new(Reason::ForeignEndpoints, problem, format!("delete {objects}, and what writes them"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reason(spec: &Value) -> Option<&'static str> {
        let service: Service = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        ServiceFields::of(&service).keeps_above_zero().map(|problem| problem.reason.as_str())
    }

    #[test]
    fn reports_local_traffic_policy_and_session_affinity() {
        let with_defaults = json!({"selector": {"app": "web"}, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"});
        assert_eq!(reason(&with_defaults), None);
        assert_eq!(reason(&json!({"internalTrafficPolicy": "Local"})), Some("InternalTrafficPolicyLocal"));
        let sticky = json!({"selector": {"app": "web"}, "sessionAffinity": "ClientIP"});
        assert_eq!(reason(&sticky), Some("SessionAffinity"));
        assert_eq!(
            reason(&json!({"sessionAffinity": "ClientIP"})),
            None,
            "Rouse manages the endpoints of a Service without selector"
        );
        let published = json!({"selector": {"app": "web"}, "publishNotReadyAddresses": true});
        assert_eq!(reason(&published), Some("NotReadyPublished"));
        assert_eq!(reason(&json!({"publishNotReadyAddresses": true})), None);
    }
}
