//! CostWriter: sets and removes the deletion cost of single pods.
//!
//! By server-side apply without force: the API server refuses the write where another manager has
//! set the annotation in the meantime. The uid makes it a conflict, and no creation, if the pod is
//! gone.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error};
use serde_json::json;

use crate::metrics::OutcomeCounters;
use crate::watches::deletion_cost::{COST, FIELD_MANAGER, POD_DELETION_COST};
use crate::watches::pod::Pod;

/// One write that is due.
#[derive(Clone, Debug)]
pub struct CostWrite {
    pub namespace: String,
    pub pod: Arc<Pod>,
    /// Whether it gets a cost or loses it.
    pub set: bool,
}

/// Writes deletion costs.
#[derive(Clone)]
pub struct CostWriter {
    pub client: Client,
    pub counters: OutcomeCounters,
}

// === impl CostWriter ===

impl CostWriter {
    /// Writes one cost. A failure is logged: the pod is gone, has another writer's cost, or the API
    /// server did not respond. Returns whether this process has no right to write costs.
    pub async fn write(&self, write: CostWrite) -> bool {
        let CostWrite { namespace, pod, set } = write;
        let pods: Api<KubernetesPod> = Api::namespaced(self.client.clone(), &namespace);
        let annotations = if set { json!({POD_DELETION_COST: COST}) } else { json!({}) };
        let metadata = json!({"name": pod.name, "uid": pod.uid, "annotations": annotations});
        let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
        let result =
            pods.patch_metadata(&pod.name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(applied)).await;
        self.counters.count(result.is_ok());
        match result {
            Ok(_) => tracing::debug!(namespace, pod = pod.name, set, "deletion cost written"),
            Err(Error::Api(error)) if error.code == StatusCode::FORBIDDEN.as_u16() => {
                tracing::info!(namespace, pod = pod.name, %error, "not allowed to write deletion costs");
                return true;
            }
            Err(error) => {
                tracing::debug!(namespace, pod = pod.name, set, %error, "deletion cost not written")
            }
        }
        false
    }
}
