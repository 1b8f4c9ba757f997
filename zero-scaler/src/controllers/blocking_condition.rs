//! Settings of a Service that keep activators from holding its requests.
//!
//! Both reconcilers check them: such a workload stays above zero, and its PodAutoscaler reports the
//! reason and the fix.

use crate::cache::service::Service;
use crate::kubernetes::reasons::Reason;
use crate::pods::endpoints::is_managed;

/// A setting that keeps a workload above zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingCondition {
    /// Reason of conditions and events.
    pub reason: Reason,
    /// The problem and the fix.
    pub message: &'static str,
}

const LOCAL: BlockingCondition = BlockingCondition {
    reason: Reason::InternalTrafficPolicyLocal,
    message: "internalTrafficPolicy: Local routes requests to endpoints of the client's node, which may have \
              no activator, so the workload stays above zero; set the Service's internalTrafficPolicy to \
              Cluster",
};

const AFFINITY: BlockingCondition = BlockingCondition {
    reason: Reason::SessionAffinity,
    message: "sessionAffinity: ClientIP pins clients to pods, so no probe can show that requests reach an \
              activator, and the workload stays above zero; set the Service's sessionAffinity to None, or \
              remove its selector so that Rouse manages its endpoints",
};

/// The first blocking condition of a Service.
pub fn blocking_condition(service: &Service) -> Option<BlockingCondition> {
    if service.has_local_traffic_policy() {
        return Some(LOCAL);
    }
    // In Proxy mode, endpoints that Rouse manages contain no pod that a client could be pinned to.
    (service.has_client_ip_affinity() && !is_managed(service)).then_some(AFFINITY)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reason(spec: &Value) -> Option<&'static str> {
        let service: Service = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        blocking_condition(&service.trimmed()).map(|blocking| blocking.reason.as_str())
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
    }
}
