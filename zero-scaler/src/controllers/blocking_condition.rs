//! What in a Service keeps the activators from holding its requests, although all else is well.
//!
//! Read by both reconcilers: such a workload is not put to zero, and its PodAutoscaler says why, and what to change.

use crate::cache::service::Service;
use crate::kubernetes::reasons::Reason;
use crate::pods::endpoints::is_managed;

/// Something that keeps a workload awake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockingCondition {
    /// One CamelCase word.
    pub reason: Reason,
    /// What it is, and what to change.
    pub message: &'static str,
}

const LOCAL: BlockingCondition = BlockingCondition {
    reason: Reason::InternalTrafficPolicyLocal,
    message: "internalTrafficPolicy: Local leads callers to the endpoints of their own node, where no activator may be; so requests \
              go to the pods, and the workload is not put to zero; set the Service's internalTrafficPolicy to Cluster",
};

const AFFINITY: BlockingCondition = BlockingCondition {
    reason: Reason::SessionAffinity,
    message: "sessionAffinity: ClientIP keeps each caller with the pod that it has, and nobody can be shown to reach an activator; \
              so the workload is not put to zero; set the Service's sessionAffinity to None, or leave out its selector, so \
              that Rouse writes its endpoints",
};

/// What stands in the way.
pub fn blocking_condition(service: &Service) -> Option<BlockingCondition> {
    if service.has_local_traffic_policy() {
        return Some(LOCAL);
    }
    // Where the endpoints are ours no pod is left among them in Proxy mode.
    (service.has_client_ip_affinity() && !is_managed(service)).then_some(AFFINITY)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reason(spec: &Value) -> Option<&'static str> {
        let service: Service = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        blocking_condition(&service.trimmed()).map(|blocking_condition| blocking_condition.reason.as_str())
    }

    #[test]
    fn who_could_not_be_held_is_known_by_the_service() {
        let filled_in = json!({"selector": {"app": "web"}, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"});
        assert_eq!(reason(&filled_in), None);
        assert_eq!(reason(&json!({"internalTrafficPolicy": "Local"})), Some("InternalTrafficPolicyLocal"));
        let sticky = json!({"selector": {"app": "web"}, "sessionAffinity": "ClientIP"});
        assert_eq!(reason(&sticky), Some("SessionAffinity"));
        assert_eq!(
            reason(&json!({"sessionAffinity": "ClientIP"})),
            None,
            "all of its endpoints change at once"
        );
    }
}
