//! The policy or the webhook that adds the sidecar, where pods are labelled for it.

use autoscaler::api::sidecar;
use autoscaler::contract::INJECTION;
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::admissionregistration::v1::{MatchResources, MutatingWebhookConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::check::cluster_objects::ClusterObjects;
use crate::check::finding::Finding;
use crate::check::selection::{Labels, matches};
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(cluster: &ClusterObjects, workloads: &[WorkloadObjects]) -> Option<Finding> {
    let labelled = workloads.iter().find(|workload| workload.needs_injection())?;
    let lost = format!("new pods get no sidecar, such as pods of workload {}", labelled.key);
    if !cluster.injection.is_absent() && !cluster.injection_binding.is_absent() {
        return narrowed(cluster, workloads);
    }
    if !cluster.injection_webhook.is_absent() {
        return cluster.injection_webhook.found().and_then(|webhook| check_webhook(cluster, webhook, &lost));
    }
    let finding = |object: String| {
        Finding::error(object, CheckReason::NoInjection, format!("it does not exist, so {lost}"))
    };
    if cluster.version.has_mutating_policies() {
        let kind = if cluster.injection.is_absent() { "" } else { "Binding" };
        return Some(finding(format!("MutatingAdmissionPolicy{kind} {INJECTION}")));
    }
    let fix = "install the chart with sidecar.injection: webhook, or the component sidecar-webhook of kustomize \
               (docs/howto/operate/install.md#choices); then restart the pods";
    Some(finding(format!("MutatingWebhookConfiguration {INJECTION}")).with_fix(fix))
}

/// The API server connects to a webhook only if it can verify its certificate. That it could not
/// connect is hidden by the webhook's failurePolicy.
fn check_webhook(
    cluster: &ClusterObjects,
    webhook: &MutatingWebhookConfiguration,
    lost: &str,
) -> Option<Finding> {
    let mut webhooks = webhook.webhooks.iter().flatten();
    let has_authority = webhooks.any(|webhook| webhook.client_config.ca_bundle.is_some());
    let is_called =
        || cluster.labelled_pod.found().is_none_or(|pod| pod.spec.as_ref().and_then(sidecar).is_some());
    let (problem, fix) = if !has_authority {
        let problem = "it has no caBundle, which the metrics-adapter writes";
        (problem, "see the log of Deployment metrics-adapter; then restart the pods")
    } else if !is_called() {
        let problem = "a dry run that creates a labelled pod returned it without a sidecar, and failurePolicy Ignore \
                       hides why the API server did not call the webhook";
        let fix = "let the API server connect to port 10250 of the metrics-adapter's pods \
                   (docs/howto/operate/platforms.md#the-port-of-the-metrics-api); then restart the pods";
        (problem, fix)
    } else {
        return None;
    };
    let object = format!("MutatingWebhookConfiguration {INJECTION}");
    Some(Finding::error(object, CheckReason::NoInjection, format!("{problem}: {lost}")).with_fix(fix))
}

/// A policy with a binding for another one, or one that does not select the workloads.
fn narrowed(cluster: &ClusterObjects, workloads: &[WorkloadObjects]) -> Option<Finding> {
    let bound = cluster.injection_binding.found().and_then(|it| it.spec.as_ref()?.policy_name.as_deref());
    if let Some(other) = bound.filter(|name| *name != INJECTION) {
        let problem = format!("it binds policy {other} in place of {INJECTION}, so new pods get no sidecar");
        let binding = format!("MutatingAdmissionPolicyBinding {INJECTION}");
        return Some(Finding::error(binding, CheckReason::NoInjection, problem));
    }
    workloads.iter().filter(|workload| workload.needs_injection()).find_map(|it| excluded(cluster, it))
}

/// A policy or binding that was narrowed to namespaces or labels, which a workload does not have.
fn excluded(cluster: &ClusterObjects, workload: &WorkloadObjects) -> Option<Finding> {
    let policy = cluster.injection.found().and_then(|it| it.spec.as_ref()?.match_constraints.as_ref());
    let binding = cluster.injection_binding.found().and_then(|it| it.spec.as_ref()?.match_resources.as_ref());
    let kinds = [("MutatingAdmissionPolicy", policy), ("MutatingAdmissionPolicyBinding", binding)];
    let (kind, selector) =
        kinds.into_iter().find_map(|(kind, resources)| Some((kind, unmatched(resources?, workload)?)))?;
    let problem = format!(
        "its {selector} does not match the pods of workload {} in namespace {}, so new ones get no sidecar",
        workload.key, workload.key.namespace
    );
    let fix = "kubectl apply --filename deploy/queue-proxy.yaml, which has no namespaceSelector and selects \
               pods by the label, or give the namespace or the pods the labels that it selects";
    Some(Finding::error(format!("{kind} {INJECTION}"), CheckReason::NoInjection, problem).with_fix(fix))
}

/// The selector that does not match. Labels that could not be read match.
fn unmatched(resources: &MatchResources, workload: &WorkloadObjects) -> Option<&'static str> {
    let fails = |selector: &Option<LabelSelector>, labels: Option<&Labels>| {
        let selector = selector.as_ref();
        selector.is_some_and(|selector| labels.is_some_and(|labels| !matches(selector, labels)))
    };
    if fails(&resources.namespace_selector, workload.namespace.labels()) {
        return Some("namespaceSelector");
    }
    fails(&resources.object_selector, workload.pod_labels()).then_some("objectSelector")
}
