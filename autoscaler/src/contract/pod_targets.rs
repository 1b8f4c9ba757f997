//! Annotations of Services by which a load balancer sends requests to the addresses of pods.
//!
//! For these Services the zero-scaler writes endpoints that name the pods of activators, and
//! `kubectl rouse check` looks for closed ports.

/// Of an ALB, on an Ingress or Service: whether it sends to nodes or to pods.
pub const ALB_TARGETS: &str = "alb.ingress.kubernetes.io/target-type";
/// Of an NLB: the same.
pub const NLB_TARGETS: &str = "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type";
/// With network endpoint groups that Google's controller made. (Its annotation
/// `cloud.google.com/neg` is on Services without a load balancer too.)
pub const NEG_STATUS: &str = "cloud.google.com/neg-status";

/// Each annotation with the value that selects pods; `None` for any.
const POD_TARGETS: [(&str, Option<&str>); 4] = [
    (ALB_TARGETS, Some("ip")),
    (NLB_TARGETS, Some("ip")),
    ("service.beta.kubernetes.io/aws-load-balancer-type", Some("nlb-ip")),
    (NEG_STATUS, None),
];

/// Whether an annotation of a Service shows that a load balancer sends to pods.
pub fn selects_pods(name: &str, value: &str) -> bool {
    POD_TARGETS.iter().any(|(of, needed)| *of == name && needed.is_none_or(|needed| needed == value))
}
