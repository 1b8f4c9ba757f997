//! On which node a pod runs, and in which zone a node is.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

/// The label of nodes, which Kubernetes copies to pods.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// The node's name; empty for a pod that is not scheduled.
pub fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}

/// The zone of each node that has one.
///
/// # Errors
/// When the API refuses.
pub async fn zones(client: &Client) -> Result<BTreeMap<String, String>> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(nodes.iter().filter_map(|node| Some((node.name_any(), node.labels().get(ZONE)?.clone()))).collect())
}
