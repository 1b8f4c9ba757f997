//! The version of the cluster: whether Rouse runs on it.

use crate::check::cluster_objects::ClusterObjects;
use crate::check::cluster_version::ClusterVersion;
use crate::check::finding::Finding;

/// The oldest version on which Rouse runs.
const OLDEST: ClusterVersion = ClusterVersion { major: 1, minor: 33 };

pub(super) fn check(cluster: &ClusterObjects) -> Option<Finding> {
    let version = cluster.version;
    (version < OLDEST).then(|| {
        let problem =
            format!("the API server is {}.{}, and Rouse needs 1.33 or newer", version.major, version.minor);
        Finding::error("cluster", "OldCluster", problem, "upgrade the cluster; see docs/howto/install.md")
    })
}
