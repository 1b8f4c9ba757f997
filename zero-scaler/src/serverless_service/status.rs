//! The status of a Service. Pure: an observation and a path in, a status out.

use autoscaler::api::{Mode, ServerlessService, ServerlessServiceStatus};
use autoscaler::contract::{QUEUE_PROXY, QUEUE_PROXY_PORT};
use autoscaler::sks_mode::SksMode;

use super::desired::Path;
use super::observe::{Observed, Unfit};
use crate::conditions::{Says, set};
use crate::pod_endpoints;

const READY: &str = "Ready";
const ENDPOINTS_POPULATED: &str = "EndpointsPopulated";
/// True while activators are in the endpoints; since when is the clock of the grace period.
pub const ACTIVATORS_POPULATED: &str = "ActivatorEndpointsPopulated";

/// The ports, before anything else is known: activators open them by this.
pub(super) fn leased(observed: &Observed) -> ServerlessServiceStatus {
    ServerlessServiceStatus { ports: observed.ports.clone(), ..observed.status() }
}

/// A Service that cannot be steered.
pub(super) fn unfit(sks: &ServerlessService, unfit: &Unfit, now: jiff::Timestamp) -> ServerlessServiceStatus {
    let before = sks.status.clone().unwrap_or_default();
    let generation = sks.metadata.generation;
    let mut conditions = before.conditions;
    set(&mut conditions, READY, Says::no(unfit.reason, unfit.message.clone()), generation, now);
    set(&mut conditions, ENDPOINTS_POPULATED, Says::no(unfit.reason, ""), generation, now);
    set(&mut conditions, ACTIVATORS_POPULATED, Says::no(unfit.reason, ""), generation, now);
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

/// A Service whose endpoints are written.
pub(super) fn populated(observed: &Observed, path: &Path) -> ServerlessServiceStatus {
    let mut conditions = observed.status().conditions;
    let generation = observed.sks.metadata.generation;
    let mut say = |r#type, says| set(&mut conditions, r#type, says, generation, observed.now);
    say(ENDPOINTS_POPULATED, pods_populated(observed.ready_pods()));
    say(ACTIVATORS_POPULATED, activators_populated(path));
    say(READY, ready(observed, path));
    ServerlessServiceStatus {
        observed_generation: generation,
        mode: Some(match path.mode {
            SksMode::Proxy => Mode::Proxy,
            SksMode::Serve => Mode::Serve,
        }),
        activators: pod_endpoints::ready(&path.activators),
        private_service: observed.private.clone(),
        ports: observed.ports.clone(),
        start_failure: observed.start_failure.clone(),
        conditions,
    }
}

fn pods_populated(ready: u32) -> Says {
    match ready {
        0 => Says::unknown("NoHealthyBackends", "no pod is ready"),
        _ => Says::yes("PodsReady", ""),
    }
}

fn activators_populated(path: &Path) -> Says {
    if path.activators.is_empty() {
        Says::no("NotProxied", "no activator is in the endpoints")
    } else {
        Says::yes("Proxied", "activators are in the endpoints")
    }
}

fn ready(observed: &Observed, path: &Path) -> Says {
    if path.activators.is_empty() && observed.ready_pods() == 0 {
        return match observed.activators.len() {
            0 => Says::no("NobodyAnswers", "no pod and no activator is ready"),
            // They open a port within milliseconds of its lease: nothing to be warned of.
            _ => Says::unknown(
                "NobodyListensYet",
                "no pod is ready, and no activator listens on the leased ports yet",
            ),
        };
    }
    if !observed.elsewhere.is_empty() {
        let words = format!(
            "there are pods with the port {QUEUE_PROXY} at {:?}, where no activator looks for it; leave it at {QUEUE_PROXY_PORT}",
            observed.elsewhere
        );
        return Says::no("SidecarPortDiffers", words);
    }
    if !observed.bypassing.is_empty() {
        let words = format!(
            "port {:?} of the Service leads past the sidecar, so its requests are not counted; set its targetPort to {QUEUE_PROXY}",
            observed.bypassing
        );
        return Says::yes("SidecarBypassed", words);
    }
    match path.mode {
        SksMode::Proxy => Says::yes("Proxying", ""),
        SksMode::Serve => Says::yes("Serving", ""),
    }
}
