//! How long the kubelet lets this process run after SIGTERM.
//!
//! `terminationGracePeriodSeconds` is what most deletions give. A deletion may name less. The
//! kubelet of a node that shuts down ends pods without their deletion. It gives ordinary ones
//! `shutdownGracePeriod` less the part of critical ones, and writes no number into the API. A
//! container that it restarts has more time, which the API does not show either.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use tokio::time::timeout;

/// Of a pod that ends without a deletion: what platforms give ordinary pods of nodes that shut
/// down.
const WITHOUT_DELETION: Duration = Duration::from_secs(15);
/// A part of the shortest grace periods in use. The API server may be on the same node.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The pod of this process.
#[derive(Clone, Debug)]
pub struct OwnPod {
    pods: Api<Pod>,
    name: String,
}

/// Why the API server did not send it.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the API server did not answer within {REQUEST_TIMEOUT:?}")]
    Timeout,
}

// === impl OwnPod ===

impl OwnPod {
    /// The pod of this name.
    pub fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self { pods: Api::namespaced(client.clone(), namespace), name: name.to_owned() }
    }

    /// The time from SIGTERM to SIGKILL; `None` if the API server does not answer.
    pub async fn grace_period(&self) -> Option<Duration> {
        match self.read().await {
            Ok(metadata) => Some(grace_period(&metadata)),
            Err(error) => {
                tracing::warn!(%error, "own pod not read, draining for as long as configured");
                None
            }
        }
    }

    async fn read(&self) -> Result<ObjectMeta, ReadError> {
        let pod = timeout(REQUEST_TIMEOUT, self.pods.get_metadata(&self.name)).await;
        Ok(pod.map_err(|_| ReadError::Timeout)??.metadata)
    }
}

fn grace_period(pod: &ObjectMeta) -> Duration {
    let deleted = pod.deletion_timestamp.as_ref().and(pod.deletion_grace_period_seconds);
    let seconds = deleted.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(WITHOUT_DELETION, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use fake_api::FakeApi;
    use serde_json::json;

    use super::*;

    async fn grace_period_of(name: &str, metadata: serde_json::Value) -> Option<Duration> {
        let api = FakeApi::default();
        let path = format!("/api/v1/namespaces/rouse-system/pods/{name}");
        api.put(&path, json!({"metadata": metadata}));
        OwnPod::new(&api.client(), "rouse-system", "activator-1").grace_period().await
    }

    #[tokio::test]
    async fn grace_period_is_that_of_the_deletion() {
        let deleted = json!({"deletionTimestamp": "2026-11-28T12:00:00Z", "deletionGracePeriodSeconds": 30});
        assert_eq!(grace_period_of("activator-1", deleted).await, Some(Duration::from_secs(30)));
    }

    #[tokio::test]
    async fn pod_that_ends_without_a_deletion_has_the_time_of_node_shutdowns() {
        assert_eq!(grace_period_of("activator-1", json!({})).await, Some(WITHOUT_DELETION));
    }

    #[tokio::test]
    async fn grace_period_of_pod_that_cannot_be_read_is_unknown() {
        assert_eq!(grace_period_of("another", json!({})).await, None);
    }
}
