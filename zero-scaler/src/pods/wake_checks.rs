//! WakeChecks: whether the next pod of a workload would start, before the last one is removed.
//!
//! Input: the PodAutoscaler reconciler, before a workload goes inactive and before it writes 0.
//! Output: the problem of `autoscaler::findings::wake`, if there is one. Its facts are the pods of
//! the target, and a server-side dry run of the next pod: quotas, LimitRanges, Pod Security and
//! admission policies answer as they would after zero. A pod of an InferencePool gets requests
//! that no activator sees, so its workload is blocked as well. The next pod is a copy of the newest
//! ready one. Where pods do not follow a change of the template and no status counts them, it is of
//! the template, and the answer shows whether the newest ready pod still is.
//!
//! What surprises: a problem holds for some time, so that a blocked workload costs few requests.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use autoscaler::Key;
use autoscaler::api::ScaleTargetRef;
use autoscaler::findings::Problem;
use autoscaler::findings::inference_pool::bypassed;
use autoscaler::findings::reasons::Reason;
use autoscaler::findings::wake::{WakeEvidence, blocking_condition, is_of_template, newest_ready_pod};
use component_base::kubernetes::Decoded;
use component_base::retry::delay_after;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;

use crate::clock::now;
use crate::pods::inference_pools::inference_pools;
use crate::pods::next_pod::{dry_run, template};

/// How long a problem holds before the next check; doubled each time.
const FIRST_DELAY: Duration = Duration::from_secs(10);
/// The longest such time.
const LAST_DELAY: Duration = Duration::from_secs(300);
/// Bounds the answer. A workload at its smallest size has few pods.
const MAX_PODS: u32 = 100;

/// The checks of all workloads, with the problems that hold.
pub struct WakeChecks {
    client: Client,
    blocked: Mutex<HashMap<Key, Blocked>>,
}

struct Blocked {
    problem: Problem,
    until: Instant,
    /// Checks that found a problem before this one.
    before: u32,
}

// === impl WakeChecks ===

impl std::fmt::Debug for WakeChecks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WakeChecks").finish_non_exhaustive()
    }
}

impl WakeChecks {
    /// No workload is blocked.
    pub fn new(client: Client) -> Self {
        Self { client, blocked: Mutex::default() }
    }

    /// The problem that the last check found, while it holds.
    pub fn in_force(&self, key: &Key) -> Option<Problem> {
        self.blocked.lock().get(key).filter(|it| it.until > now()).map(|it| it.problem.clone())
    }

    /// When the next check of a blocked workload is due; `None` once its problem has ended.
    pub fn retry_after(&self, key: &Key) -> Option<Duration> {
        let until = self.blocked.lock().get(key)?.until;
        until.checked_duration_since(now()).filter(|left| !left.is_zero())
    }

    /// Checks a workload whose pods have this selector. `evidence` is without pods.
    pub async fn check(
        &self,
        key: &Key,
        target: &ScaleTargetRef,
        selector: &str,
        evidence: WakeEvidence<'_>,
    ) -> Option<Problem> {
        let problem = self.find_problem(&key.namespace, target, selector, evidence).await;
        let mut blocked = self.blocked.lock();
        match &problem {
            Some(problem) => {
                let before = blocked.get(key).map_or(0, |it| it.before.saturating_add(1));
                let until = now() + delay_after(before, FIRST_DELAY, LAST_DELAY);
                blocked.insert(key.clone(), Blocked { problem: problem.clone(), until, before });
            }
            None => drop(blocked.remove(key)),
        }
        problem
    }

    /// Drops deleted workloads; called periodically.
    pub fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.blocked.lock().retain(|key, _| exists(key));
    }

    async fn find_problem(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
        selector: &str,
        evidence: WakeEvidence<'_>,
    ) -> Option<Problem> {
        let problem = blocking_condition(&evidence);
        if problem.is_some() || !evidence.is_serving {
            return problem;
        }
        let pods = match self.pods(namespace, selector).await {
            Ok(pods) => pods,
            Err(error) => {
                let problem = format!("the pods of the workload cannot be read: {error}");
                return Some(Problem::with_usual_fix(Reason::PodsRefused, problem));
            }
        };
        let evidence = WakeEvidence { pods: &pods, ..evidence };
        if let Some(problem) = blocking_condition(&evidence) {
            return Some(problem);
        }
        let pools = match inference_pools(&self.client, namespace).await {
            Ok(pools) => pools,
            Err(error) => {
                return Some(Problem::with_usual_fix(Reason::InferencePoolBypass, error.to_string()));
            }
        };
        if let Some(problem) = bypassed(&pools, &pods) {
            return Some(problem);
        }
        let newest = newest_ready_pod(&pods)?;
        // Pods of a StatefulSet follow its template, and its status counts those that have.
        let template = match target.kind.as_str() {
            "StatefulSet" => None,
            _ => template(&self.client, namespace, target).await,
        };
        match dry_run(&self.client, namespace, &next_pod(newest, template.as_ref())).await {
            Err(refusal) => blocking_condition(&WakeEvidence { refused_pod: Some(&refusal), ..evidence }),
            Ok(admitted) => {
                let template = template.and_then(|template| template.spec);
                let specs = template.zip(admitted.and_then(|pod| pod.spec)).zip(newest.spec.as_ref());
                let is_other = specs.is_some_and(|((template, admitted), running)| {
                    !is_of_template(running, &admitted, &template)
                });
                let other = is_other.then(|| newest.name_any());
                blocking_condition(&WakeEvidence { other_template: other.as_deref(), ..evidence })
            }
        }
    }

    /// Undecodable pods are left out.
    async fn pods(&self, namespace: &str, selector: &str) -> Result<Vec<Pod>, kube::Error> {
        let pods = Api::<Decoded<Pod>>::namespaced(self.client.clone(), namespace);
        let listed = pods.list(&ListParams::default().labels(selector).limit(MAX_PODS)).await?;
        Ok(listed.items.into_iter().filter_map(|pod| pod.0.ok()).map(|pod| pod.as_ref().clone()).collect())
    }
}

/// A pod as the owner of a running one would create it: of this template, else a copy without what
/// admission and the scheduler have set and compute again.
fn next_pod(pod: &Pod, template: Option<&PodTemplateSpec>) -> Pod {
    let meta = &pod.metadata;
    let of_template = template.map(|template| template.metadata.clone().unwrap_or_default());
    let source = of_template.as_ref().unwrap_or(meta);
    let mut owners = meta.owner_references.clone();
    // Needs the right to change the owner's finalizers.
    owners.iter_mut().flatten().for_each(|owner| owner.block_owner_deletion = None);
    let metadata = ObjectMeta {
        generate_name: Some(meta.generate_name.clone().unwrap_or_else(|| format!("{}-", pod.name_any()))),
        namespace: meta.namespace.clone(),
        labels: source.labels.clone(),
        annotations: source.annotations.clone(),
        owner_references: owners,
        ..ObjectMeta::default()
    };
    let copy = || {
        pod.spec.clone().map(|spec| PodSpec {
            node_name: None,
            priority: None,
            preemption_policy: None,
            overhead: None,
            ephemeral_containers: None,
            ..spec
        })
    };
    let spec = template.map_or_else(copy, |template| template.spec.clone());
    Pod { metadata, spec, status: None }
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use serde_json::json;

    use super::*;

    /// A delay of zero would repeat the reconcile of a workload with requests without end.
    #[tokio::test(start_paused = true)]
    async fn problem_and_its_retry_end_at_the_same_instant() {
        let (checks, key) = (WakeChecks::new(FakeApi::default().client()), Key::new("shop", "web"));
        let refused = WakeEvidence {
            next: &autoscaler::findings::wake::NextPods::default(),
            may_delete_volumes: false,
            is_serving: true,
            refused_write: Some("exceeded quota"),
            pods: &[],
            refused_pod: None,
            other_template: None,
        };
        let target =
            ScaleTargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() };
        assert!(checks.check(&key, &target, "app=web", refused).await.is_some());
        assert_eq!(checks.retry_after(&key), Some(FIRST_DELAY));
        tokio::time::advance(FIRST_DELAY).await;
        assert_eq!((checks.in_force(&key), checks.retry_after(&key)), (None, None));
    }

    #[test]
    fn copy_of_a_pod_has_no_field_that_only_a_running_pod_has() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-1", "generateName": "web-", "namespace": "shop", "uid": "1", "resourceVersion": "7",
                "labels": {"app": "web"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": "web", "uid": "2", "controller": true, "blockOwnerDeletion": true}]},
            "spec": {"nodeName": "a", "priority": 7, "overhead": {"cpu": "1"}, "containers": [{"name": "app"}],
                "ephemeralContainers": [{"name": "debugger"}]},
            "status": {"phase": "Running"},
        }))
        .unwrap();
        assert_eq!(
            serde_json::to_value(next_pod(&pod, None)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"generateName": "web-", "namespace": "shop", "labels": {"app": "web"},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2",
                        "controller": true}]},
                "spec": {"containers": [{"name": "app"}]},
            })
        );
    }
}
