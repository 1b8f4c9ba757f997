//! WakeChecks: whether the next pod of a workload would start, before the last one is removed.
//!
//! Input: the PodAutoscaler reconciler, before a workload goes inactive and before it writes 0.
//! Output: the problem of `autoscaler::findings::wake`, if there is one. Its facts are the pods of
//! the target, and a server-side dry run of a copy of the newest ready pod: quotas, LimitRanges,
//! Pod Security and admission policies answer as they would after zero.
//!
//! What surprises: a problem holds for some time, so that a blocked workload costs few requests.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use autoscaler::Key;
use autoscaler::findings::Problem;
use autoscaler::findings::reasons::Reason;
use autoscaler::findings::wake::{WakeEvidence, blocking_condition, newest_ready_pod};
use component_base::kubernetes::Decoded;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;

use crate::clock::now;

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
    delay: Duration,
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

    /// When the next check of a blocked workload is due.
    pub fn retry_after(&self, key: &Key) -> Option<Duration> {
        let until = self.blocked.lock().get(key)?.until;
        until.checked_duration_since(now())
    }

    /// Checks a workload whose pods have this selector. `evidence` is without pods.
    pub async fn check(&self, key: &Key, selector: &str, evidence: WakeEvidence<'_>) -> Option<Problem> {
        let problem = self.find_problem(&key.namespace, selector, evidence).await;
        let mut blocked = self.blocked.lock();
        match &problem {
            Some(problem) => {
                let delay = blocked.get(key).map_or(FIRST_DELAY, |it| (it.delay * 2).min(LAST_DELAY));
                let problem = problem.clone();
                blocked.insert(key.clone(), Blocked { problem, until: now() + delay, delay });
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
        let refused = self.refusal(namespace, newest_ready_pod(&pods)?).await;
        blocking_condition(&WakeEvidence { refused_pod: refused.as_deref(), ..evidence })
    }

    /// Undecodable pods are left out.
    async fn pods(&self, namespace: &str, selector: &str) -> Result<Vec<Pod>, kube::Error> {
        let pods = Api::<Decoded<Pod>>::namespaced(self.client.clone(), namespace);
        let listed = pods.list(&ListParams::default().labels(selector).limit(MAX_PODS)).await?;
        Ok(listed.items.into_iter().filter_map(|pod| pod.0.ok()).map(|pod| pod.as_ref().clone()).collect())
    }

    /// Why the API server refuses another pod like this one.
    async fn refusal(&self, namespace: &str, pod: &Pod) -> Option<String> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        match pods.create(&dry_run, &next_pod(pod)).await {
            Ok(_) => None,
            Err(error) if is_of_the_check(&error) => {
                tracing::warn!(namespace, pod = pod.name_any(), %error, "dry run of a pod failed, ignored");
                None
            }
            Err(kube::Error::Api(status)) => Some(status.message),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Whether an error is about the dry run and not about pods of the workload: this process may not
/// create any, or the copy has a field that only a running pod has.
fn is_of_the_check(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    match status.code {
        403 => status.message.contains("cannot create resource \"pods\""),
        422 => status.message.starts_with("Pod \"") && status.message.contains(" is invalid: "),
        _ => false,
    }
}

/// A copy of a running pod as its owner would create it, without what admission and the scheduler
/// have set and compute again.
fn next_pod(pod: &Pod) -> Pod {
    let meta = &pod.metadata;
    let mut owners = meta.owner_references.clone();
    // Needs the right to change the owner's finalizers.
    owners.iter_mut().flatten().for_each(|owner| owner.block_owner_deletion = None);
    let metadata = ObjectMeta {
        generate_name: Some(meta.generate_name.clone().unwrap_or_else(|| format!("{}-", pod.name_any()))),
        namespace: meta.namespace.clone(),
        labels: meta.labels.clone(),
        annotations: meta.annotations.clone(),
        owner_references: owners,
        ..ObjectMeta::default()
    };
    let spec = pod.spec.clone().map(|spec| PodSpec {
        node_name: None,
        priority: None,
        preemption_policy: None,
        overhead: None,
        ephemeral_containers: None,
        ..spec
    });
    Pod { metadata, spec, status: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            serde_json::to_value(next_pod(&pod)).unwrap(),
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
