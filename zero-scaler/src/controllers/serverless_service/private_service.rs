//! PrivateServiceNeed: whether a managed Service needs its private Service, which selects the pods.
//!
//! Without pods it is one more Service with a slice and Endpoints, which all nodes watch. So it is
//! created when the target leaves zero, and deleted some time after the last pod. A workload that
//! sleeps for a few minutes at a time would else write and delete it each time.
//!
//! At zero, other pods than the target's may have the labels that it selects. Activators find them.
//! The private Service is needed for them where requests do not pass activators.

use std::time::Duration;

use autoscaler::api::condition;
use autoscaler::findings::service::ServiceFields;

use super::condition_types::ENDPOINTS_POPULATED;
use super::observe::ObservedService;
use crate::kubernetes::conditions::since;

/// How long it is kept without a ready pod.
const RETENTION: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrivateServiceNeed {
    Needed,
    /// It exists, and is deleted unless it is needed before.
    KeptFor(Duration),
    Unneeded,
}

// === impl PrivateServiceNeed ===

impl PrivateServiceNeed {
    pub(super) fn of(observed: &ObservedService) -> Self {
        if !observed.managed {
            return Self::Unneeded;
        }
        let pass_activators = observed.may_proxy()
            && !observed.activators.is_empty()
            && ServiceFields::of(&observed.service).direct_ports().next().is_none();
        if !observed.without_pods || !pass_activators {
            return Self::Needed;
        }
        let left = RETENTION.saturating_sub(without_ready_pod_for(observed));
        if observed.private_service.is_none() || left.is_zero() {
            Self::Unneeded
        } else {
            Self::KeptFor(left)
        }
    }
}

/// Zero, if the status does not have it yet.
fn without_ready_pod_for(observed: &ObservedService) -> Duration {
    let status = observed.sks.status.as_ref();
    let populated = status.and_then(|status| condition(&status.conditions, ENDPOINTS_POPULATED));
    let elapsed = populated
        .filter(|populated| populated.status != "True")
        .map(|populated| observed.now.as_millisecond().saturating_sub(since(populated)));
    elapsed.and_then(|elapsed| u64::try_from(elapsed).ok()).map_or(Duration::ZERO, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::desired::tests::{endpoint, observed};
    use super::*;

    /// A managed Service at zero, without a ready pod since the beginning of time.
    fn at_zero() -> ObservedService {
        let mut observed = ObservedService { without_pods: true, ..observed("Proxy", true, &[]) };
        let populated = json!({"type": ENDPOINTS_POPULATED, "status": "Unknown", "reason": "NoHealthyBackends",
            "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
        observed.sks.status =
            serde_json::from_value(json!({"activators": 2, "conditions": [populated]})).unwrap();
        observed
    }

    fn existing(after: Duration) -> ObservedService {
        let private_service = Some(Arc::default());
        ObservedService { private_service, now: jiff::Timestamp::UNIX_EPOCH + after, ..at_zero() }
    }

    #[test]
    fn is_needed_while_the_target_has_pods_or_its_size_is_unknown() {
        let awake = ObservedService { without_pods: false, ..at_zero() };
        assert_eq!(PrivateServiceNeed::of(&awake), PrivateServiceNeed::Needed);
        assert_eq!(PrivateServiceNeed::of(&at_zero()), PrivateServiceNeed::Unneeded);
        let attached = ObservedService { without_pods: false, ..observed("Serve", false, &[]) };
        assert_eq!(PrivateServiceNeed::of(&attached), PrivateServiceNeed::Unneeded);
    }

    #[test]
    fn is_kept_for_ten_minutes_after_the_last_ready_pod() {
        let need = |seconds| PrivateServiceNeed::of(&existing(Duration::from_secs(seconds)));
        assert_eq!(need(0), PrivateServiceNeed::KeptFor(RETENTION));
        assert_eq!(need(599), PrivateServiceNeed::KeptFor(Duration::from_secs(1)));
        assert_eq!(need(600), PrivateServiceNeed::Unneeded);
        let unreported = ObservedService { sks: observed("Proxy", true, &[]).sks, ..existing(2 * RETENTION) };
        assert_eq!(PrivateServiceNeed::of(&unreported), PrivateServiceNeed::KeptFor(RETENTION));
    }

    /// Pods of another Deployment may have the labels.
    #[test]
    fn is_needed_at_zero_where_requests_do_not_pass_activators() {
        let without_activators = ObservedService { activators: Vec::new(), ..at_zero() };
        assert_eq!(PrivateServiceNeed::of(&without_activators), PrivateServiceNeed::Needed);
        let leaving = ObservedService {
            activators_leaving: true,
            activators: vec![endpoint("10.2.0.1", true)],
            ..at_zero()
        };
        assert_eq!(PrivateServiceNeed::of(&leaving), PrivateServiceNeed::Needed);
        let mut udp = at_zero();
        let spec = json!({"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]});
        udp.service = Arc::new(serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap());
        assert_eq!(PrivateServiceNeed::of(&udp), PrivateServiceNeed::Needed);
    }
}
