//! Which workloads do not serve from their pods yet.
//!
//! Input: the statuses that the zero-scaler writes. A workload that its owner set to zero (Paused)
//! stays there.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, Scaler, ServerlessService, condition, key_of};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::kubernetes::reasons::Reason;
use crate::uninstall::error::UninstallError;

/// Interval of the lists.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Condition type and reasons of a workload at zero by its owner.
const ACTIVE: &str = "Active";
const PAUSED: [Reason; 2] = [Reason::Paused, Reason::PausedByAnnotation];

/// A workload whose requests need Rouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWorkload {
    /// Namespace and name.
    pub key: Key,
    /// Why they do.
    pub reason: PendingReason,
}

/// Why requests of a workload need Rouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// The size is 0.
    AtZero,
    /// The Service leads to activators, because no pod is ready.
    BehindActivators,
}

// === impl PendingReason ===

impl fmt::Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtZero => "at zero",
            Self::BehindActivators => "no pod is ready",
        })
    }
}

/// Waits until no workload is pending. Returns those that are at the deadline.
///
/// # Errors
/// When the API server refuses a list.
pub async fn until_awake(client: &Client, deadline: Instant) -> Result<Vec<PendingWorkload>, UninstallError> {
    loop {
        let pending = pending(&autoscalers(client).await?, &serverless_services(client).await?);
        if pending.is_empty() || Instant::now() >= deadline {
            return Ok(pending);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The workloads that need Rouse, by name.
pub fn pending(autoscalers: &[PodAutoscaler], services: &[ServerlessService]) -> Vec<PendingWorkload> {
    let mut pending = BTreeMap::new();
    for (key, service) in services.iter().filter_map(|service| Some((key_of(service)?, service))) {
        if service.status.as_ref().is_some_and(|status| status.activators > 0) {
            pending.insert(key, PendingReason::BehindActivators);
        }
    }
    for (key, autoscaler) in autoscalers.iter().filter_map(|pa| Some((key_of(pa)?, pa))) {
        if is_paused(autoscaler) {
            pending.remove(&key);
        } else if autoscaler.status.as_ref().is_some_and(|status| status.replicas == Some(0)) {
            pending.insert(key, PendingReason::AtZero);
        }
    }
    pending.into_iter().map(|(key, reason)| PendingWorkload { key, reason }).collect()
}

fn is_paused(autoscaler: &PodAutoscaler) -> bool {
    let status = autoscaler.status.as_ref();
    let active = status.and_then(|status| condition(&status.conditions, ACTIVE));
    active.is_some_and(|active| PAUSED.iter().any(|reason| reason.as_str() == active.reason))
}

/// Logs each workload that no autoscaler changes any more: its owner has to act.
///
/// # Errors
/// When the API server refuses the list.
pub async fn report_without_autoscaler(client: &Client) -> Result<(), UninstallError> {
    for autoscaler in autoscalers(client).await? {
        let Some(key) = key_of(&autoscaler) else { continue };
        match autoscaler.spec.scaler {
            Scaler::Hpa => {
                tracing::info!(hpa = %key, "HPA keeps its size without the metric of Rouse; delete it or give it another metric");
            }
            Scaler::Direct => tracing::info!(workload = %key, "workload keeps its size, nothing scales it"),
            Scaler::Other => {}
        }
    }
    Ok(())
}

async fn autoscalers(client: &Client) -> Result<Vec<PodAutoscaler>, UninstallError> {
    let listed = Api::<PodAutoscaler>::all(client.clone()).list(&ListParams::default()).await;
    Ok(listed.map_err(UninstallError::api("list PodAutoscalers"))?.items)
}

/// All ServerlessServices.
///
/// # Errors
/// When the API server refuses the list.
pub async fn serverless_services(client: &Client) -> Result<Vec<ServerlessService>, UninstallError> {
    let listed = Api::<ServerlessService>::all(client.clone()).list(&ListParams::default()).await;
    Ok(listed.map_err(UninstallError::api("list ServerlessServices"))?.items)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn autoscaler(name: &str, status: &Value) -> PodAutoscaler {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "service": name},
            "status": status,
        }))
        .unwrap()
    }

    fn behind_activators(name: &str) -> ServerlessService {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"service": name, "selector": "app=web", "mode": "Proxy", "numActivators": 2},
            "status": {"mode": "Proxy", "activators": 2},
        }))
        .unwrap()
    }

    #[test]
    fn workload_needs_pods_behind_its_service_unless_its_owner_paused_it() {
        let condition = |reason: &str| {
            json!([{"type": "Active", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        let autoscalers = [
            autoscaler("awake", &json!({"replicas": 1})),
            autoscaler("paused", &json!({"replicas": 0, "conditions": condition("Paused")})),
            autoscaler("sleeping", &json!({"replicas": 0, "conditions": condition("NoTraffic")})),
            autoscaler("starting", &json!({"replicas": 1})),
        ];
        let services = ["paused", "sleeping", "starting"].map(behind_activators);
        let pending = pending(&autoscalers, &services);
        let pending: Vec<_> = pending.iter().map(|p| (p.key.name.as_str(), p.reason)).collect();
        assert_eq!(
            pending,
            [("sleeping", PendingReason::AtZero), ("starting", PendingReason::BehindActivators)]
        );
    }
}
