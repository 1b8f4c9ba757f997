//! AppPod: what a pod sets for its sidecar, by annotations and by its first container.

use std::collections::BTreeMap;

use autoscaler::api::{declared_app_port, sidecar};
use autoscaler::contract::sidecar_ports::SidecarPorts;
use autoscaler::contract::{APP_PORT, GROUP};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::sidecar_injection::app_probe::AppProbe;

/// Default of Kubernetes for `terminationGracePeriodSeconds`.
const DEFAULT_GRACE_PERIOD: i64 = 30;
/// Seconds of the grace period that the app and the sidecar need to stop.
const STOP: i64 = 5;

/// A pod that gets a sidecar.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppPod<'a> {
    annotations: Option<&'a BTreeMap<String, String>>,
    spec: &'a PodSpec,
    app: &'a Container,
}

// === impl AppPod ===

impl<'a> AppPod<'a> {
    /// `None` for a pod without containers, which the API server rejects by itself.
    pub(super) fn new(pod: &'a Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let app = spec.containers.first()?;
        Some(Self { annotations: pod.metadata.annotations.as_ref(), spec, app })
    }

    pub(super) fn spec(&self) -> &'a PodSpec {
        self.spec
    }

    pub(super) fn has_sidecar(&self) -> bool {
        sidecar(self.spec).is_some()
    }

    /// An annotation of Rouse, without the prefix in `name`.
    pub(super) fn annotation(&self, name: &str) -> Option<&'a str> {
        self.annotations?.get(&format!("{GROUP}/{name}")).map(String::as_str)
    }

    /// The ports of the sidecar. The API server rejects a pod with port 0, which an invalid
    /// annotation makes.
    pub(super) fn sidecar_ports(&self) -> SidecarPorts {
        SidecarPorts::annotated(|name| Some(self.annotations?.get(name)?.as_str()))
    }

    /// The app's port: as annotated, else as declared.
    pub(super) fn port(&self) -> String {
        let annotated = self.annotations.and_then(|all| all.get(APP_PORT).cloned());
        annotated.unwrap_or_else(|| declared_app_port(Some(self.spec)).to_string())
    }

    /// How long the sidecar may take to finish requests.
    pub(super) fn drain_timeout(&self) -> String {
        let period = self.spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_PERIOD);
        let seconds = if period > 2 * STOP { period - STOP } else { period / 2 };
        format!("{seconds}s")
    }

    /// Whether the sidecar is an ordinary container behind the pod's own. A pod that is to complete
    /// would never do so with such a container. An app with a hook of its own may need the order.
    pub(super) fn is_app_first(&self) -> bool {
        let restarts = matches!(self.spec.restart_policy.as_deref(), None | Some("" | "Always"));
        let has_hook = || self.spec.containers.iter().any(|container| container.lifecycle.is_some());
        restarts && self.annotation("app-first").map_or_else(|| !has_hook(), |value| value == "true")
    }

    /// The app's readiness probe, if the sidecar runs it for the kubelet.
    pub(super) fn probe(&self) -> Option<AppProbe<'a>> {
        let is_replaced = self.annotation("readiness-path").is_some_and(|path| !path.is_empty());
        if is_replaced { None } else { AppProbe::of(self.app) }
    }
}
