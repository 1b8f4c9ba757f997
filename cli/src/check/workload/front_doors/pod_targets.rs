//! Load balancers that send to the addresses of pods: whether they find activators, and may connect
//! to them. An activator listens on its leased port, not on the Service's `targetPort`.

use autoscaler::contract::pod_targets::{ALB_TARGETS, NEG_STATUS, NLB_TARGETS};
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::front_door::FrontDoor;
use crate::check::workload_objects::WorkloadObjects;

/// Annotation of a Service for an NLB: whether its controller writes rules of the pods' security
/// groups.
const NLB_RULES: &str = "service.beta.kubernetes.io/aws-load-balancer-manage-backend-security-group-rules";

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(service) = workload.service.found() else { return Vec::new() };
    let doors = workload.namespace.front_doors.iter();
    let albs = doors.filter(|door| {
        door.backends.iter().any(|it| Some(&it.service) == workload.service_name.as_ref())
            && annotation(service, ALB_TARGETS).or(door.alb_targets.as_deref()) == Some("ip")
    });
    let object = format!("Service {}/{}", workload.key.namespace, service.name_any());
    albs.filter_map(|door| alb(&door.object, door, service))
        .chain(nlb(&object, service))
        .chain(neg(&object, service))
        .collect()
}

fn alb(object: &str, door: &FrontDoor, service: &Service) -> Option<Finding> {
    let problem = if annotation(service, ALB_TARGETS).is_none() {
        "its targets are pods, which its Service does not state: activators are left out, and a request at zero \
         has no target"
    } else {
        aws_problem(service, door.has_own_rules)?
    };
    let fix = format!(
        "set {ALB_TARGETS}: instance, and type: NodePort in the Service; or see docs/howto/front-doors/aws.md"
    );
    Some(Finding::warning(object, CheckReason::SecurityGroupPort, problem).with_fix(fix))
}

fn nlb(object: &str, service: &Service) -> Option<Finding> {
    annotation(service, NLB_TARGETS).filter(|targets| *targets == "ip")?;
    let problem = aws_problem(service, annotation(service, NLB_RULES) == Some("false"))?;
    let fix = format!("set {NLB_TARGETS}: instance; or see docs/howto/front-doors/aws.md");
    Some(Finding::warning(object, CheckReason::SecurityGroupPort, problem).with_fix(fix))
}

fn aws_problem(service: &Service, has_own_rules: bool) -> Option<&'static str> {
    if !has_numbers(service) {
        return Some(
            "its targets are pods, and targetPort is a name: the controller looks for it on activators, which have no \
             such port, and stops with an error",
        );
    }
    (!has_own_rules).then_some(
        "its targets are pods, and its controller opens the port of targetPort alone: activators listen on 10000 \
         to 49999",
    )
}

fn neg(object: &str, service: &Service) -> Option<Finding> {
    annotation(service, NEG_STATUS)?;
    has_numbers(service).then(|| {
        let problem = "it has network endpoint groups, and targetPort is a number: GKE opens that port alone, and \
                       activators listen on 10000 to 49999";
        let fix = "name the port of the container, and set targetPort to the name: GKE then opens the ports of \
                   the endpoints; or see docs/howto/front-doors/gke.md";
        Finding::warning(object, CheckReason::SecurityGroupPort, problem).with_fix(fix)
    })
}

/// Whether a target port is a number, which it is by default.
fn has_numbers(service: &Service) -> bool {
    let mut ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.any(|port| !matches!(port.target_port, Some(IntOrString::String(_))))
}

fn annotation<'a>(service: &'a Service, name: &str) -> Option<&'a str> {
    service.annotations().get(name).map(String::as_str)
}
