//! The Leases of the parts with a leader: whether one leads.
//!
//! Leaders renew each 2 s. Other replicas do not compare clocks, this check does: with the time of
//! the API server.

use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::coordination::v1::Lease;

use crate::check::cluster_objects::{ClusterObjects, METRICS_ADAPTER};
use crate::check::finding::Finding;

/// Seconds without a renewal, or ahead of the API server, that are reported.
const LONG: i64 = 60;

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    // Without a pod nothing leads, which is reported of the Deployment.
    let leases = cluster.leases.iter().filter(|(name, _)| cluster.has_available_pods(name) == Some(true));
    leases
        .filter_map(|(name, lease)| {
            let lease = lease.found()?;
            without_leader(cluster, name, lease).or_else(|| clock_ahead(cluster, name, lease))
        })
        .collect()
}

fn without_leader(cluster: &ClusterObjects, name: &str, lease: &Lease) -> Option<Finding> {
    let spec = lease.spec.as_ref()?;
    let renewed = spec.renew_time.as_ref()?.0;
    if cluster.now.as_second().saturating_sub(renewed.as_second()) <= LONG {
        return None;
    }
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty()).unwrap_or("no pod");
    let effect = if name == METRICS_ADAPTER {
        "HPAs get no metric and nothing is decided"
    } else {
        "no object and no size is written"
    };
    let problem = format!("{holder} holds it and renewed it last at {renewed}, so none leads: {effect}");
    Some(Finding::error(object(cluster, name), CheckReason::NoLeader, problem))
}

fn clock_ahead(cluster: &ClusterObjects, name: &str, lease: &Lease) -> Option<Finding> {
    let spec = lease.spec.as_ref()?;
    let renewed = spec.renew_time.as_ref()?.0;
    let ahead = renewed.as_second().saturating_sub(cluster.now.as_second());
    (ahead > LONG).then(|| {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let problem = format!("{holder} renewed it at {renewed}, {ahead} s ahead of the API server's clock");
        Finding::warning(object(cluster, name), CheckReason::ClockSkew, problem)
    })
}

fn object(cluster: &ClusterObjects, name: &str) -> String {
    format!("Lease {}/{name}", cluster.system_namespace)
}
