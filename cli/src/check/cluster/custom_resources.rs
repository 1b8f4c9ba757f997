//! The custom resource definitions.

use crate::check::cluster_objects::ClusterObjects;
use crate::check::finding::Finding;

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    let absent = cluster.custom_resources.iter().filter(|(_, object)| object.is_absent());
    absent
        .map(|(name, _)| {
            Finding::error(
                format!("CustomResourceDefinition {name}"),
                "NotInstalled",
                "it does not exist, so Rouse cannot manage workloads",
                "kubectl apply --filename deploy/crds.yaml, or install the chart",
            )
        })
        .collect()
}
