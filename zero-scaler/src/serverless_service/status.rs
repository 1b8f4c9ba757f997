//! The status of a Service. Pure: an observation and a path in, a status out.

use autoscaler::api::{Mode, ServerlessService, ServerlessServiceStatus};
use autoscaler::contract::{QUEUE_PROXY, QUEUE_PROXY_PORT};
use autoscaler::sks_mode::SksMode;

use super::desired::Path;
use super::observe::{Observed, Unfit};
use crate::conditions::{Says, set};
use crate::pod_endpoints;

/// True while requests are led to somebody.
pub const READY: &str = "Ready";
const ENDPOINTS_POPULATED: &str = "EndpointsPopulated";
/// True while activators are in the endpoints; since when is the clock of the grace period.
pub const ACTIVATORS_POPULATED: &str = "ActivatorEndpointsPopulated";

/// A port's requests go to the app itself.
pub const SIDECAR_BYPASSED: &str = "SidecarBypassed";
/// A port's own target is not followed.
const TARGET_PORT_IGNORED: &str = "TargetPortIgnored";

/// What a Service that is Ready may have to be told of: Ready's reasons then.
pub const ADVICE: [&str; 2] = [SIDECAR_BYPASSED, TARGET_PORT_IGNORED];

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
    if let Some(exhausted) = &observed.exhausted {
        let words = format!(
            "{exhausted}; its pods are served, and it is not put to zero; delete workloads, or ports of their Services, that nobody needs"
        );
        return Says::no("PortsExhausted", words);
    }
    if path.activators.is_empty() && observed.ready_pods() == 0 {
        return match observed.activators.len() {
            0 => Says::no(
                "NobodyAnswers",
                "no pod and no activator is ready; see why Rouse's activators (Deployment activator) are not",
            ),
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
    if !observed.other_targets.is_empty() {
        return other_targets(observed);
    }
    match path.mode {
        SksMode::Proxy => Says::yes("Proxying", ""),
        SksMode::Serve => Says::yes("Serving", ""),
    }
}

fn other_targets(observed: &Observed) -> Says {
    let ports = &observed.other_targets;
    if observed.managed {
        let words = format!(
            "a Service without selector leads all of its ports to the sidecar, port {ports:?} with another targetPort as well; set it to \
             {QUEUE_PROXY}, or move what the sidecar should not see to a Service with a selector"
        );
        return Says::yes(TARGET_PORT_IGNORED, words);
    }
    let words = format!(
        "port {ports:?} of the Service leads past the sidecar, so its requests are not counted, and refused while the workload sleeps; \
         set its targetPort to {QUEUE_PROXY}"
    );
    Says::yes(SIDECAR_BYPASSED, words)
}
