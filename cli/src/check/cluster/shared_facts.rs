//! What the checks of workloads use of the cluster.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::check::cluster_objects::{ACTIVATOR, ClusterObjects, METRICS_ADAPTER, NAME_LABEL, ZERO_SCALER};
use crate::check::peer_authentication::is_in_mesh;
use crate::check::selection::network_policy::Peer;
use crate::check::workload_objects::SharedFacts;

/// The variable of the admission policy with the sidecar's image.
const IMAGE: &str = "image";

/// Extracts it.
pub fn shared_facts(cluster: &ClusterObjects) -> SharedFacts {
    SharedFacts {
        now: cluster.now,
        version: cluster.version,
        has_zero_scaler: cluster.has_available_pods(ZERO_SCALER) != Some(false),
        collectors: peers(cluster, METRICS_ADAPTER),
        activators: peers(cluster, ACTIVATOR),
        activators_in_mesh: cluster.pods_of(ACTIVATOR).any(is_in_mesh),
        sidecar_image: sidecar_image(cluster),
    }
}

/// The pods of a part of Rouse. Without any, or without the right to read them, one as the
/// installation would create it.
pub(super) fn peers(cluster: &ClusterObjects, part: &str) -> Vec<Peer> {
    let namespace = &cluster.system_namespace;
    let given = [("kubernetes.io/metadata.name".to_owned(), namespace.clone())].into();
    let namespace_labels = cluster.system.found().map_or(given, |namespace| namespace.labels().clone());
    let expected: BTreeMap<_, _> = [(NAME_LABEL.to_owned(), part.to_owned())].into();
    let peer = |labels: &BTreeMap<String, String>, address| Peer {
        namespace: namespace.clone(),
        namespace_labels: namespace_labels.clone(),
        labels: labels.clone(),
        address,
    };
    let found: Vec<Peer> = cluster
        .pods_of(part)
        .map(|pod| peer(pod.labels(), pod.status.as_ref().and_then(|it| it.pod_ip.as_ref()?.parse().ok())))
        .collect();
    if found.is_empty() { vec![peer(&expected, None)] } else { found }
}

/// The image is a CEL string, which has the form of JSON.
fn sidecar_image(cluster: &ClusterObjects) -> Option<String> {
    let spec = cluster.injection.found()?.spec.as_ref()?;
    let variable = spec.variables.iter().flatten().find(|variable| variable.name == IMAGE)?;
    serde_json::from_str(&variable.expression).ok()
}
