//! The status of a Service. Pure: an observation and a path in, a status out.

use autoscaler::api::{ServerlessService, ServerlessServiceStatus, SksMode};
use autoscaler::findings::{Problem, service};
use autoscaler::routing::port_lease::PortLeaseError;

use super::condition_types::{ACTIVATORS_POPULATED, ENDPOINTS_POPULATED, READY};
use super::desired::ServingPath;
use super::foreign_endpoints::ForeignEndpoints;
use super::observe::{MissingPort, ObservedService};
use crate::kubernetes::conditions::{ConditionContent, set};
use crate::kubernetes::reasons::Reason;
use crate::pods::endpoints;

/// The leases alone, written first: activators open the ports of the status.
pub(super) fn leased(observed: &ObservedService) -> ServerlessServiceStatus {
    ServerlessServiceStatus { ports: observed.ports.clone(), ..observed.status() }
}

/// The status of a Service whose requests Rouse cannot route.
pub(super) fn unusable(
    sks: &ServerlessService,
    unusable: &Problem,
    now: jiff::Timestamp,
) -> ServerlessServiceStatus {
    let before = sks.status.clone().unwrap_or_default();
    let generation = sks.metadata.generation;
    let mut conditions = before.conditions;
    set(&mut conditions, READY, ConditionContent::no(unusable.reason, unusable.message()), generation, now);
    set(&mut conditions, ENDPOINTS_POPULATED, ConditionContent::no(unusable.reason, ""), generation, now);
    set(&mut conditions, ACTIVATORS_POPULATED, ConditionContent::no(unusable.reason, ""), generation, now);
    // The ports stay leased: activators may still hold requests that came through them.
    ServerlessServiceStatus {
        observed_generation: generation,
        mode: None,
        activators: 0,
        private_service: None,
        ports: before.ports,
        start_failure: None,
        conditions,
    }
}

/// The status of a Service whose endpoints are written, or all but those that the API server
/// refused.
pub(super) fn populated(
    observed: &ObservedService,
    path: &ServingPath,
    foreign: &ForeignEndpoints,
    refused: Option<&str>,
) -> ServerlessServiceStatus {
    let mut conditions = observed.status().conditions;
    let generation = observed.sks.metadata.generation;
    let mut set = |r#type, content| set(&mut conditions, r#type, content, generation, observed.now);
    set(ENDPOINTS_POPULATED, pods_populated(observed.ready_pods()));
    set(ACTIVATORS_POPULATED, activators_populated(path));
    let refused = refused.map(|message| Problem::with_usual_fix(Reason::WriteRefused, message));
    set(
        READY,
        refused.map_or_else(
            || ready(observed, path, foreign),
            |it| ConditionContent::no(it.reason, it.message()),
        ),
    );
    ServerlessServiceStatus {
        observed_generation: generation,
        mode: Some(match path.mode {
            SksMode::Proxy => SksMode::Proxy,
            SksMode::Serve => SksMode::Serve,
        }),
        activators: endpoints::ready(&path.activators),
        private_service: observed.private.clone(),
        ports: observed.ports.clone(),
        start_failure: observed.start_failure.clone(),
        conditions,
    }
}

fn pods_populated(ready: u32) -> ConditionContent {
    match ready {
        0 => ConditionContent::unknown(Reason::NoHealthyBackends, "no pod is ready"),
        _ => ConditionContent::yes(Reason::PodsReady, ""),
    }
}

fn activators_populated(path: &ServingPath) -> ConditionContent {
    if path.activators.is_empty() {
        ConditionContent::no(Reason::NotProxied, "no activator is in the endpoints")
    } else {
        ConditionContent::yes(Reason::Proxied, "activators are in the endpoints")
    }
}

fn ready(observed: &ObservedService, path: &ServingPath, foreign: &ForeignEndpoints) -> ConditionContent {
    if let Some(error) = &observed.unleased {
        return unleased(error);
    }
    if path.activators.is_empty() && observed.ready_pods() == 0 {
        return match observed.activators.len() {
            0 => ConditionContent::no(
                Reason::NoReadyBackend,
                "no pod and no activator is ready; see why the pods of Deployment activator are not ready",
            ),
            // Unknown and not False: activators open a port within milliseconds of its lease.
            _ => ConditionContent::unknown(
                Reason::ActivatorsNotListening,
                "no pod is ready, and no activator listens on the leased ports yet",
            ),
        };
    }
    if let Some(taken) = &observed.private_taken {
        return ConditionContent::no(taken.reason, taken.message());
    }
    if let Some(message) = foreign.message(&observed.sks.spec.service) {
        return ConditionContent::no(Reason::ForeignEndpoints, message);
    }
    if let Some(missing) = &observed.missing_port {
        let MissingPort { service_port, name, pod } = missing;
        let message = format!(
            "port {service_port} of the Service has targetPort {name:?}, and no container of pod {pod} has a port of \
             that name, so it gets no requests; add it to the container, or set targetPort to the number of the app's port"
        );
        return ConditionContent::no(Reason::TargetPortNotFound, message);
    }
    if !observed.other_targets.is_empty() {
        return other_targets(observed);
    }
    match path.mode {
        SksMode::Proxy => ConditionContent::yes(Reason::Proxying, ""),
        SksMode::Serve => ConditionContent::yes(Reason::Serving, ""),
    }
}

fn unleased(error: &PortLeaseError) -> ConditionContent {
    let (reason, more) = match error {
        PortLeaseError::Exhausted { .. } => (Reason::PortsExhausted, ""),
        PortLeaseError::QuotaExceeded { .. } => {
            (Reason::PortQuotaExceeded, ", or raise --ports-per-namespace of the zero-scaler")
        }
    };
    let message = format!(
        "{error}; the workload is served by its pods and stays above zero; delete workloads or Service ports that \
         are not needed{more}"
    );
    ConditionContent::no(reason, message)
}

fn other_targets(observed: &ObservedService) -> ConditionContent {
    let problem = service::other_targets(&observed.other_targets, observed.managed);
    ConditionContent::yes(problem.reason, problem.message())
}
