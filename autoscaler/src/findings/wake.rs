//! Whether what comes back from zero would serve: every condition that keeps a workload above zero
//! because of what its next pod would be.
//!
//! Input: the target, its pods, and the API server's answer to a dry run of the next pod. Output:
//! the first [`Problem`]. The zero-scaler calls it before a workload goes inactive and again before
//! it writes 0, and reports the problem in the condition Degraded.
//!
//! What surprises: pods are only judged while one is ready. Without one, zero takes nothing from
//! clients.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Problem;
use super::deployment_conditions::{condition, creation_failure};
use super::pod_status::{PodReadiness, pod_readiness};
use super::reasons::Reason;
use crate::contract::quantity::parse_milli;
use crate::scaling::pod_start::StartingPod;
use crate::settings::SidecarMode;

/// The reasons of [`blocking_condition`] and of [`bypassed`](super::inference_pool::bypassed).
pub const BLOCKING_REASONS: [Reason; 6] = [
    Reason::VolumesDeleted,
    Reason::InferencePoolBypass,
    Reason::WriteRefused,
    Reason::RolloutIncomplete,
    Reason::NewestPodNotReady,
    Reason::PodsRefused,
];

/// What a Deployment or StatefulSet states about the pods that it makes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextPods {
    /// Whether the volumes of its pods are deleted with them at a scale-down.
    pub deletes_volumes: bool,
    /// What is incomplete in its rollout: its pods may not be of the template that comes back.
    pub incomplete_rollout: Option<String>,
}

/// The facts about a workload that is about to go to zero.
#[derive(Clone, Copy, Debug)]
pub struct WakeEvidence<'a> {
    /// Of a target whose kind is watched.
    pub next: &'a NextPods,
    /// Whether the user accepts the deletion of the volumes.
    pub may_delete_volumes: bool,
    /// Whether clients have something to lose: the workload is reachable and has a ready pod.
    pub is_serving: bool,
    /// An object that the workload needs and that the API server refuses.
    pub refused_write: Option<&'a str>,
    /// The pods of the target; empty before they were listed.
    pub pods: &'a [Pod],
    /// The refusal of a dry run of the next pod.
    pub refused_pod: Option<&'a str>,
    /// The newest ready pod, where it [is not of the present template](is_of_template).
    pub other_template: Option<&'a str>,
}

/// The first condition that keeps the workload above zero.
pub fn blocking_condition(evidence: &WakeEvidence<'_>) -> Option<Problem> {
    if evidence.next.deletes_volumes && !evidence.may_delete_volumes {
        let problem = "persistentVolumeClaimRetentionPolicy.whenScaled is Delete, so zero would delete the \
                       volumes of the pods; the workload stays above zero";
        return Some(Problem::with_usual_fix(Reason::VolumesDeleted, problem));
    }
    let of = |reason, problem| Some(Problem::with_usual_fix(reason, problem));
    if let Some(message) = evidence.refused_write {
        // The message of its own condition, with the fix.
        return Some(Problem::new(Reason::WriteRefused, message, ""));
    }
    if !evidence.is_serving {
        return None;
    }
    if let Some(incomplete) = &evidence.next.incomplete_rollout {
        let problem =
            format!("{incomplete}, and after zero all would be; the workload stays above zero until then");
        return of(Reason::RolloutIncomplete, problem);
    }
    if let Some(problem) = newest_pod_problem(evidence.pods) {
        return of(Reason::NewestPodNotReady, problem);
    }
    if let Some(pod) = evidence.other_template {
        let problem = format!(
            "the template of the target has changed since the newest ready pod, {pod}, was made, so no pod shows \
             that what comes back from zero would serve; the workload stays above zero until then"
        );
        let fix =
            format!("delete pod {pod}, which lets one of the present template start, or undo the change");
        return Some(Problem::new(Reason::RolloutIncomplete, problem, fix));
    }
    let refusal = evidence.refused_pod.filter(|message| !is_only_full_quota(message))?;
    let problem =
        format!("a new pod would be refused, so the workload could not come back from zero: {refusal}");
    of(Reason::PodsRefused, problem)
}

/// The newest pod shows whether a pod starts today. Older ones may have started when an image, a
/// ConfigMap or a node still existed.
fn newest_pod_problem(pods: &[Pod]) -> Option<String> {
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let all = pods.iter().map(|pod| (created(pod), pod_readiness(pod, SidecarMode::None)));
    let (ready, others): (Vec<_>, Vec<_>) = all
        .filter(|(_, readiness)| *readiness != PodReadiness::Ended)
        .partition(|(_, readiness)| *readiness == PodReadiness::Ready);
    let newest_ready = ready.into_iter().map(|(created, _)| created).max()?;
    let (_, newest) =
        others.into_iter().filter(|(created, _)| *created >= newest_ready).max_by_key(|it| it.0)?;
    let (PodReadiness::Starting(pod) | PodReadiness::Unacknowledged { pod, .. }) = newest else {
        return None;
    };
    Some(format!("the newest pod, {}, is not ready{}", pod.name, cause(&pod)))
}

fn cause(pod: &StartingPod) -> String {
    pod.cause(false).map_or_else(String::new, |cause| format!(" ({}: {})", cause.reason, cause.message))
}

/// The ready pod of which the next one is most likely a copy.
pub fn newest_ready_pod(pods: &[Pod]) -> Option<&Pod> {
    let ready = pods.iter().filter(|pod| pod_readiness(pod, SidecarMode::None) == PodReadiness::Ready);
    ready.max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// Whether a running pod is what the API server would make of a template today, which `admitted` is
/// by a dry run. Containers and volumes that admission adds may differ, and so may resources, which
/// LimitRanges and autoscalers of pods set.
pub fn is_of_template(running: &PodSpec, admitted: &PodSpec, template: &PodSpec) -> bool {
    comparable(running, template) == comparable(admitted, template)
}

/// Without what the scheduler, a kubelet or admission sets.
fn comparable(spec: &PodSpec, template: &PodSpec) -> PodSpec {
    let own = |all: &[Container], of_template: &[Container]| -> Vec<Container> {
        let is_own = |name: &str| of_template.iter().any(|container| container.name == name);
        all.iter()
            .map(|it| if is_own(&it.name) { comparable_container(it) } else { named(&it.name) })
            .collect()
    };
    let list = |all: &Option<Vec<Container>>| all.clone().unwrap_or_default();
    let own_volumes: BTreeSet<&str> = template.volumes.iter().flatten().map(|it| it.name.as_str()).collect();
    let volumes = spec.volumes.iter().flatten().filter(|volume| own_volumes.contains(volume.name.as_str()));
    PodSpec {
        containers: own(&spec.containers, &template.containers),
        init_containers: Some(own(&list(&spec.init_containers), &list(&template.init_containers))),
        volumes: Some(volumes.cloned().collect()),
        ephemeral_containers: None,
        node_name: None,
        overhead: None,
        preemption_policy: None,
        priority: None,
        resources: None,
        scheduling_gates: None,
        ..spec.clone()
    }
}

fn comparable_container(container: &Container) -> Container {
    // The volume of the service account's token has a random name.
    let mounts = container.volume_mounts.iter().flatten();
    let mounts = mounts.filter(|mount| !mount.name.starts_with("kube-api-access-"));
    let volume_mounts = Some(mounts.cloned().collect());
    Container { resources: None, volume_mounts, ..container.clone() }
}

fn named(name: &str) -> Container {
    Container { name: name.to_owned(), ..Container::default() }
}

/// Whether a refusal by a quota only counts the pods that zero removes: the quota is full and not
/// exceeded, and the pod fits into an empty one. The API server writes `exceeded quota: NAME,
/// requested: pods=1, used: pods=1, limited: pods=1`.
fn is_only_full_quota(message: &str) -> bool {
    let Some((_, amounts)) = message.split_once("exceeded quota: ") else { return false };
    let Some((_, amounts)) = amounts.split_once(", requested: ") else { return false };
    let Some((requested, amounts)) = amounts.split_once(", used: ") else { return false };
    let Some((used, limited)) = amounts.split_once(", limited: ") else { return false };
    let amounts = |text: &str| {
        let pairs = text.split(',').map(|pair| parse_milli(pair.trim().split_once('=')?.1).ok());
        pairs.collect::<Option<Vec<_>>>()
    };
    let (Some(requested), Some(used), Some(limited)) = (amounts(requested), amounts(used), amounts(limited))
    else {
        return false;
    };
    let is_within = |amounts: &[i64]| {
        amounts.len() == limited.len() && amounts.iter().zip(&limited).all(|(amount, limit)| amount <= limit)
    };
    is_within(&used) && is_within(&requested)
}

// === impl NextPods ===

impl NextPods {
    /// Of a Deployment: after zero, all of its pods have the newest template.
    pub fn of_deployment(deployment: &Deployment) -> Self {
        Self { deletes_volumes: false, incomplete_rollout: incomplete(deployment) }
    }

    /// Of a StatefulSet: after zero, its first pods have the newest template, whatever its update
    /// strategy. A partition does not keep them from it: without a pod, Kubernetes counts the
    /// update as complete.
    pub fn of_stateful_set(set: &StatefulSet) -> Self {
        let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
        let has_claims = set.spec.volume_claim_templates.iter().flatten().next().is_some();
        let is_deleted = policy.and_then(|policy| policy.when_scaled.as_deref()) == Some("Delete");
        let incomplete_rollout = set.status.as_ref().and_then(|status| {
            let updated = status.updated_replicas.unwrap_or(0);
            let observed = status.observed_generation;
            incomplete_of(&set.metadata, observed, updated, status.replicas)
        });
        Self { deletes_volumes: has_claims && is_deleted, incomplete_rollout }
    }
}

fn incomplete(deployment: &Deployment) -> Option<String> {
    let status = deployment.status.as_ref()?;
    let (updated, all) = (status.updated_replicas.unwrap_or(0), status.replicas.unwrap_or(0));
    let incomplete = incomplete_of(&deployment.metadata, status.observed_generation, updated, all)?;
    let stopped = condition(deployment, "Progressing", "False").and_then(|it| it.message.as_deref());
    let causes: Vec<&str> = stopped.into_iter().chain(creation_failure(deployment)).collect();
    Some(if causes.is_empty() { incomplete } else { format!("{incomplete} ({})", causes.join("; ")) })
}

/// A target without a status of its controller is left out: it has no pods by it.
fn incomplete_of(meta: &ObjectMeta, observed: Option<i64>, updated: i32, all: i32) -> Option<String> {
    if observed? < meta.generation.unwrap_or(0) {
        return Some("the controller of the target has not observed its newest version".to_owned());
    }
    (updated < all).then(|| format!("{updated} of {all} pods have the newest template"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOTHING: NextPods = NextPods { deletes_volumes: false, incomplete_rollout: None };

    fn evidence<'a>(next: &'a NextPods, pods: &'a [Pod], refused_pod: Option<&'a str>) -> WakeEvidence<'a> {
        let (may_delete_volumes, is_serving) = (false, true);
        let (refused_write, other_template) = (None, None);
        WakeEvidence {
            next,
            may_delete_volumes,
            is_serving,
            refused_write,
            pods,
            refused_pod,
            other_template,
        }
    }

    fn reason(evidence: &WakeEvidence<'_>) -> Option<&'static str> {
        blocking_condition(evidence).map(|problem| problem.reason.as_str())
    }

    fn deployment(generation: i64, status: Value) -> NextPods {
        let deployment = json!({"metadata": {"name": "web", "generation": generation},
            "spec": {"selector": {}, "template": {}}, "status": status});
        NextPods::of_deployment(&serde_json::from_value(deployment).unwrap())
    }

    fn stateful_set(spec: Value, status: Value) -> NextPods {
        let mut set = json!({"metadata": {"name": "db", "generation": 1}, "status": status,
            "spec": {"serviceName": "db", "selector": {}, "template": {}}});
        set["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        NextPods::of_stateful_set(&serde_json::from_value(set).unwrap())
    }

    fn pod(name: &str, minute: u32, status: Value) -> Pod {
        let created = format!("2026-01-01T00:{minute:02}:00Z");
        serde_json::from_value(json!({"metadata": {"name": name, "creationTimestamp": created},
            "spec": {"containers": [{"name": "app"}]}, "status": status}))
        .unwrap()
    }

    fn ready(name: &str, minute: u32) -> Pod {
        pod(name, minute, json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}))
    }

    fn without_image(name: &str, minute: u32) -> Pod {
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
        let container = json!({"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": waiting});
        pod(name, minute, json!({"phase": "Pending", "containerStatuses": [container]}))
    }

    #[test]
    fn deployment_sleeps_only_after_its_rollout() {
        let status = |updated: i32, all: i32, observed: i64| json!({"replicas": all, "updatedReplicas": updated, "observedGeneration": observed});
        for (next, expected) in [
            (deployment(2, status(1, 1, 2)), None),
            (deployment(2, status(1, 2, 2)), Some("RolloutIncomplete")),
            (deployment(2, status(0, 1, 2)), Some("RolloutIncomplete")),
            (deployment(3, status(1, 1, 2)), Some("RolloutIncomplete")),
            (deployment(3, json!({})), None),
        ] {
            assert_eq!(reason(&evidence(&next, &[], None)), expected, "{next:?}");
        }
        let next = deployment(
            1,
            json!({"replicas": 1, "observedGeneration": 1, "conditions": [
                {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"},
                {"type": "Available", "status": "True", "message": "available"}]}),
        );
        let message = blocking_condition(&evidence(&next, &[], None)).unwrap().message();
        assert!(
            message.contains("0 of 1 pods have the newest template (exceeded quota: small)"),
            "{message}"
        );
    }

    #[test]
    fn stateful_set_sleeps_only_after_its_rollout_whatever_its_strategy() {
        let status = json!({"replicas": 2, "updatedReplicas": 1, "observedGeneration": 1});
        let rolling = |partition: i32| json!({"updateStrategy": {"rollingUpdate": {"partition": partition}}});
        let complete = json!({"replicas": 2, "updatedReplicas": 2, "observedGeneration": 1});
        for spec in [
            json!({}),
            json!({"updateStrategy": {"type": "OnDelete"}}),
            json!({"ordinals": {"start": 5}, "podManagementPolicy": "Parallel"}),
            rolling(0),
            rolling(1),
            rolling(9),
        ] {
            let reason =
                |status: &Value| reason(&evidence(&stateful_set(spec.clone(), status.clone()), &[], None));
            assert_eq!(reason(&status), Some("RolloutIncomplete"), "{spec}");
            assert_eq!(reason(&complete), None, "{spec}");
        }
    }

    #[test]
    fn volumes_that_a_scale_down_deletes_keep_the_workload_above_zero() {
        let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
        let policy = |scaled: &str| json!({"whenScaled": scaled, "whenDeleted": "Delete"});
        let of = |policy: Value, claims: &Value| {
            let spec =
                json!({"persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": claims});
            stateful_set(spec, json!({"replicas": 1}))
        };
        let deleted = of(policy("Delete"), &claims);
        let all = evidence(&deleted, &[], None);
        assert_eq!(reason(&all), Some("VolumesDeleted"));
        assert_eq!(reason(&WakeEvidence { is_serving: false, ..all }), Some("VolumesDeleted"));
        assert_eq!(reason(&WakeEvidence { may_delete_volumes: true, ..all }), None);
        for kept in
            [of(policy("Retain"), &claims), of(Value::Null, &claims), of(policy("Delete"), &json!([]))]
        {
            assert_eq!(reason(&evidence(&kept, &[], None)), None, "{kept:?}");
        }
    }

    #[test]
    fn refused_object_blocks_also_without_a_ready_pod() {
        let refused = WakeEvidence { refused_write: Some("quota"), ..evidence(&NOTHING, &[], None) };
        assert_eq!(reason(&WakeEvidence { is_serving: false, ..refused }), Some("WriteRefused"));
    }

    #[test]
    fn newest_pod_has_to_be_ready() {
        let check = |pods: &[Pod]| reason(&evidence(&NOTHING, pods, None));
        let blocked = Some("NewestPodNotReady");
        assert_eq!(check(&[ready("old", 1), without_image("new", 2)]), blocked);
        assert_eq!(check(&[without_image("new", 2), ready("old", 2)]), blocked);
        assert_eq!(check(&[without_image("old", 1), ready("new", 2)]), None, "it is not the newest");
        assert_eq!(check(&[ready("old", 1), pod("evicted", 2, json!({"phase": "Failed"}))]), None);
        assert_eq!(check(&[without_image("only", 1)]), None, "nothing serves");
        let pods = [ready("old", 1), without_image("new", 2)];
        let message = blocking_condition(&evidence(&NOTHING, &pods, None)).unwrap().message();
        assert!(message.contains("new, is not ready (ImagePullBackOff: not found)"), "{message}");
        assert_eq!(reason(&WakeEvidence { is_serving: false, ..evidence(&NOTHING, &pods, None) }), None);
        assert_eq!(newest_ready_pod(&pods).unwrap().metadata.name.as_deref(), Some("old"));
    }

    #[test]
    fn pod_of_a_former_template_keeps_the_workload_above_zero() {
        let spec = |value: Value| serde_json::from_value::<PodSpec>(value).unwrap();
        let app = |image: &str| json!({"name": "app", "image": image});
        let template = spec(json!({"containers": [app("v1")]}));
        // As admission completes it: a sidecar, a token, requests.
        let admitted = |image: &str, mesh: &str, token: &str| {
            let mut app = app(image);
            app["resources"] = json!({"requests": {"cpu": mesh}});
            app["volumeMounts"] = json!([{"name": token, "mountPath": "/var/run"}]);
            json!({"containers": [app, {"name": "mesh", "image": mesh}], "volumes": [{"name": token}],
                "serviceAccountName": "default"})
        };
        let mut running = admitted("v1", "1", "kube-api-access-a");
        running["nodeName"] = json!("a");
        running["priority"] = json!(0);
        let today = spec(admitted("v1", "2", "kube-api-access-b"));
        assert!(is_of_template(&spec(running.clone()), &today, &template));
        for (field, value) in [
            ("nodeSelector", json!({"disk": "ssd"})),
            ("serviceAccountName", json!("other")),
            ("containers", json!([app("v0"), {"name": "mesh", "image": "1"}])),
            ("containers", json!([app("v1"), {"name": "mesh", "image": "1"}, {"name": "removed"}])),
        ] {
            let mut other = running.clone();
            other[field] = value;
            assert!(!is_of_template(&spec(other), &today, &template), "{field}");
        }
        let other = WakeEvidence { other_template: Some("web-1"), ..evidence(&NOTHING, &[], None) };
        assert_eq!(reason(&other), Some("RolloutIncomplete"));
        assert_eq!(reason(&WakeEvidence { is_serving: false, ..other }), None);
        let message = blocking_condition(&other).unwrap().message();
        assert!(message.contains("delete pod web-1"), "{message}");
    }

    #[test]
    fn refused_pod_counts_unless_a_quota_is_only_full() {
        let check = |message: &str| reason(&evidence(&NOTHING, &[], Some(message)));
        let quota = |used: &str, limited: &str| {
            format!(
                "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1,requests.memory=64Mi, used: {used}, limited: {limited}"
            )
        };
        let blocked = Some("PodsRefused");
        assert_eq!(check(&quota("pods=1,requests.memory=64Mi", "pods=1,requests.memory=100Mi")), None);
        assert_eq!(check(&quota("pods=1,requests.memory=64Mi", "pods=0,requests.memory=100Mi")), blocked);
        assert_eq!(check(&quota("pods=1,requests.memory=64Mi", "pods=1,requests.memory=32Mi")), blocked);
        let large = "pods \"a\" is forbidden: exceeded quota: q, requested: limits.cpu=2, used: limits.cpu=1, limited: limits.cpu=1";
        assert_eq!(check(large), blocked, "the pod that runs is smaller than the next one");
        assert_eq!(check("pods \"a\" is forbidden: failed quota: q: must specify limits.cpu"), blocked);
        assert_eq!(check("pods \"a\" is forbidden: maximum cpu usage per Container is 100m"), blocked);
        assert_eq!(check("pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\""), blocked);
    }
}
