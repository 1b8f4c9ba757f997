//! Versions: whether Rouse runs on the cluster, and whether its parts have one version.

use autoscaler::findings::reasons::CheckReason;

use crate::check::cluster_objects::{ClusterObjects, DEPLOYMENTS};
use crate::check::cluster_version::ClusterVersion;
use crate::check::finding::Finding;

/// The oldest version on which Rouse runs.
const OLDEST: ClusterVersion = ClusterVersion { major: 1, minor: 33 };

pub(super) fn check(cluster: &ClusterObjects) -> Option<Finding> {
    let version = cluster.version;
    (version < OLDEST).then(|| {
        let problem =
            format!("the API server is {}.{}, and Rouse needs 1.33 or newer", version.major, version.minor);
        Finding::error("cluster", CheckReason::OldCluster, problem)
    })
}

/// Parts of different versions, where all have tags.
pub(super) fn skew(cluster: &ClusterObjects) -> Option<Finding> {
    let tags: Vec<(&str, &str)> =
        DEPLOYMENTS.iter().filter_map(|name| Some((*name, cluster.tag(name)?))).collect();
    let (first, tag) = *tags.first()?;
    let (other, other_tag) = tags.iter().find(|(_, it)| *it != tag)?;
    let object = format!("Deployment {}/{other}", cluster.system_namespace);
    let problem = format!("its image has tag {other_tag}, and the image of {first} has {tag}");
    Some(Finding::warning(object, CheckReason::VersionSkew, problem))
}
