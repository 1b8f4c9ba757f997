//! The nodes of the activators: whether the loss of one node takes all of them.

use std::collections::BTreeSet;

use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::core::v1::Pod;

use crate::check::cluster_objects::{ACTIVATOR, ClusterObjects};
use crate::check::finding::Finding;

/// A finding only where a pod of Rouse on another node shows that there is one.
pub(in crate::check::cluster) fn check(cluster: &ClusterObjects) -> Option<Finding> {
    let pods = cluster.pods.found()?;
    let node = |pod: &'_ Pod| pod.spec.as_ref()?.node_name.clone();
    let placed: Vec<String> = cluster.pods_of(ACTIVATOR).filter_map(node).collect();
    let nodes: BTreeSet<&String> = placed.iter().collect();
    let first = *nodes.first().filter(|_| nodes.len() == 1 && placed.len() > 1)?;
    let has_other_node = pods.iter().filter_map(node).any(|it| it != *first);
    has_other_node.then(|| {
        let problem = format!(
            "all {} pods run on node {first}: without that node, held requests fail until others have \
             started",
            placed.len()
        );
        let object = format!("Deployment {}/{ACTIVATOR}", cluster.system_namespace);
        Finding::warning(object, CheckReason::SingleNode, problem)
    })
}
