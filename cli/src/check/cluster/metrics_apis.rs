//! The owners of the metrics APIs, and whether the API server reaches the metrics-adapter.

use autoscaler::contract::{CUSTOM_API, EXTERNAL_API};
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use crate::check::cluster_objects::ClusterObjects;
use crate::check::fetched::Fetched;
use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

/// Findings about an installation.
pub(super) fn check(cluster: &ClusterObjects, workloads: &[WorkloadObjects]) -> Vec<Finding> {
    let apis = [(EXTERNAL_API, &cluster.external_api), (CUSTOM_API, &cluster.custom_api)];
    let ours: Vec<_> = apis
        .into_iter()
        .filter_map(|(name, api)| Some((name, api.found().filter(|api| is_ours(cluster, api))?)))
        .collect();
    if !ours.is_empty() {
        return ours.into_iter().filter_map(|(name, api)| unavailable(name, api)).collect();
    }
    // Without HPAs on its metrics Rouse needs neither API.
    let needs_none = !workloads.is_empty() && !workloads.iter().any(WorkloadObjects::is_scaled_by_hpa);
    if needs_none { Vec::new() } else { without_api(cluster).into_iter().collect() }
}

/// Neither API leads to Rouse.
fn without_api(cluster: &ClusterObjects) -> Option<Finding> {
    let described = format!("APIService {EXTERNAL_API}");
    match &cluster.external_api {
        Fetched::Found(api) => {
            let problem = format!("it leads to {}, so HPAs get no metric of Rouse", owner(api));
            Some(Finding::error(described, CheckReason::ForeignAPIService, problem))
        }
        Fetched::NotFound => {
            let problem = "it does not exist, so HPAs get no metric of Rouse";
            let fix =
                "kubectl apply --filename deploy/metrics-adapter.yaml, or install the chart with metricsApi";
            Some(Finding::error(described, CheckReason::NotInstalled, problem).with_fix(fix))
        }
        Fetched::Unreadable(_) => None,
    }
}

/// Findings before an installation: APIs that belong to other adapters.
pub(super) fn other_owners(cluster: &ClusterObjects) -> Vec<Finding> {
    let other = |api: &Fetched<APIService>| api.found().filter(|api| !is_ours(cluster, api)).map(owner);
    let Some(external) = other(&cluster.external_api) else { return Vec::new() };
    let (problem, fix) = match other(&cluster.custom_api) {
        None => (
            format!("it leads to {external}; kubectl apply -k deploy would take it away from there"),
            "install the chart, which then serves custom.metrics.k8s.io, or use the component custom-metrics \
             (docs/howto/custom-metrics.md)",
        ),
        Some(custom) => (
            format!(
                "it leads to {external}, and {CUSTOM_API} to {custom}, so HPAs could get no metric of Rouse"
            ),
            "install with metricsApi: none, and use PodAutoscalers with scaler: Direct \
             (docs/howto/without-an-hpa.md)",
        ),
    };
    let object = format!("APIService {EXTERNAL_API}");
    vec![Finding::warning(object, CheckReason::ForeignAPIService, problem).with_fix(fix)]
}

fn unavailable(name: &str, api: &APIService) -> Option<Finding> {
    let conditions = api.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut available = conditions.filter(|condition| condition.type_ == "Available");
    let failing = available.find(|condition| condition.status == "False")?;
    let problem = format!(
        "the API server does not reach it ({}): {}",
        failing.reason.as_deref().unwrap_or("unknown"),
        failing.message.as_deref().unwrap_or("no message")
    );
    let fix = fix(failing.reason.as_deref().unwrap_or_default(), &problem);
    let object = format!("APIService {name}");
    Some(Finding::error(object, CheckReason::APIServiceUnavailable, problem).with_fix(fix))
}

fn fix(reason: &str, problem: &str) -> &'static str {
    // The metrics-adapter refuses a user that no front proxy's certificate vouches for.
    let is_refused = problem.ends_with(": 401") || problem.ends_with(": 403");
    let is_about_trust = ["x509", "certificate", "tls:"].iter().any(|word| problem.contains(word));
    match reason {
        _ if is_refused => {
            "start kube-apiserver with a front proxy: --requestheader-client-ca-file and --proxy-client-cert-file \
             (docs/howto/operate/platforms.md#the-front-proxy)"
        }
        _ if is_about_trust => {
            "let the metrics-adapter write caBundle: it may patch APIServices by ClusterRole \
             rouse-metrics-adapter, and its logs have the error; another issuer's certificate must name \
             metrics-adapter.rouse-system.svc, and its CA be in caBundle"
        }
        "ServiceNotFound" | "ServicePortError" => {
            "let spec.service name Service metrics-adapter and its port 443: kubectl apply --filename \
             deploy/metrics-adapter.yaml"
        }
        "EndpointsNotFound" | "MissingEndpoints" => {
            "start the pods of Deployment metrics-adapter, and let Service metrics-adapter select them"
        }
        _ => CheckReason::APIServiceUnavailable.fix(),
    }
}

/// Whether an APIService leads to this installation.
pub(super) fn is_ours(cluster: &ClusterObjects, api: &APIService) -> bool {
    let service = api.spec.as_ref().and_then(|spec| spec.service.as_ref());
    service.is_some_and(|service| service.namespace.as_deref() == Some(cluster.system_namespace.as_str()))
}

fn owner(api: &APIService) -> String {
    let service = api.spec.as_ref().and_then(|spec| spec.service.as_ref());
    service.map_or_else(
        || "the API server itself".to_owned(),
        |service| {
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("Service {}/{}", part(&service.namespace), part(&service.name))
        },
    )
}
