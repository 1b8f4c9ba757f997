//! The Leases of the parts with a leader: whether one leads.
//!
//! Leaders renew each 2 s. Other replicas do not compare clocks, this check does: with the time of
//! the API server.

use k8s_openapi::api::coordination::v1::Lease;

use crate::check::cluster_objects::{ClusterObjects, METRICS_ADAPTER};
use crate::check::finding::Finding;

/// Seconds without a renewal, or ahead of the API server, that are reported.
const LONG: i64 = 60;

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    let leases = cluster.leases.iter().filter(|(name, _)| is_available(cluster, name));
    leases
        .filter_map(|(name, lease)| {
            let lease = lease.found()?;
            without_leader(cluster, name, lease).or_else(|| clock_ahead(cluster, name, lease))
        })
        .collect()
}

/// Without a pod nothing leads, which is reported of the Deployment.
fn is_available(cluster: &ClusterObjects, name: &str) -> bool {
    let deployment = cluster.deployments.get(name).and_then(|object| object.found());
    let status = deployment.and_then(|deployment| deployment.status.as_ref());
    status.and_then(|status| status.available_replicas).unwrap_or(0) > 0
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
    let fix = format!(
        "let the pods of {name} update the Lease (their logs have the error), and set the clocks of their \
         nodes; if it remains, kubectl --namespace {} delete lease {name}",
        cluster.system_namespace
    );
    Some(Finding::error(object(cluster, name), "NoLeader", problem, fix))
}

fn clock_ahead(cluster: &ClusterObjects, name: &str, lease: &Lease) -> Option<Finding> {
    let spec = lease.spec.as_ref()?;
    let renewed = spec.renew_time.as_ref()?.0;
    let ahead = renewed.as_second().saturating_sub(cluster.now.as_second());
    (ahead > LONG).then(|| {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let problem = format!("{holder} renewed it at {renewed}, {ahead} s ahead of the API server's clock");
        let fix = "synchronise the clocks of the nodes; learned targets and schedules need them";
        Finding::warning(object(cluster, name), "ClockSkew", problem, fix)
    })
}

fn object(cluster: &ClusterObjects, name: &str) -> String {
    format!("Lease {}/{name}", cluster.system_namespace)
}
