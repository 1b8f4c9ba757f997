//! The activator in the path of a workload above zero, so that no request is held.

use std::ffi::OsString;
use std::path::Path;

use super::bounds::Bounds;
use super::launch_site::LaunchSite;
use super::nginx;
use super::proxy::{Proxy, SOAKED_LIMIT, SoakedProxy};
use super::queue_proxy;

/// Close to nginx, so that the activator may stay in the path. `--held` measures its memory.
const BOUNDS: Bounds = Bounds {
    reference: nginx::NAME,
    rps: 0.9,
    cpu: 1.1,
    p99: Some(1.0),
    added_p50: None,
    idle_memory: None,
    memory: None,
    size: None,
    start: None,
};
/// Close to the sidecar, because the activator replaces it for pods without one.
const BOUNDS_WITHOUT_SIDECAR: Bounds = Bounds {
    reference: queue_proxy::NAME,
    rps: 0.95,
    cpu: 1.1,
    p99: None,
    added_p50: None,
    idle_memory: None,
    memory: None,
    size: None,
    start: None,
};
/// The activator sends requests to a Ready pod without probing it first.
const WORKLOADS: &str = "workloads:
- name: shop/web
  ports: [{listen: @LISTEN_PORT@, pod: @BACKEND_PORT@}]
  pods: [{ip: @BACKEND_IP@, ready: true}]
";

pub(super) fn proxy(path: &Path) -> Proxy {
    Proxy::ours("activator", path, |site| arguments(site, WORKLOADS), &BOUNDS)
}

/// In front of pods without a sidecar, with the timeout that it applies by default.
pub(super) fn without_sidecar(path: &Path) -> Proxy {
    let arguments =
        |site: &LaunchSite| arguments(site, &format!("{WORKLOADS}  sidecar: false\n  timeoutSeconds: 300\n"));
    Proxy::ours("activator-without-sidecar", path, arguments, &BOUNDS_WITHOUT_SIDECAR)
}

pub(super) fn soaked(path: &Path) -> SoakedProxy {
    let arguments = |site: &LaunchSite| {
        let limited = format!("{WORKLOADS}  containerConcurrency: {SOAKED_LIMIT}\n");
        Ok([arguments(site, &limited)?, vec!["--header-timeout=5s".into()]].concat())
    };
    let proxy = Proxy::ours("activator-soak", path, arguments, &BOUNDS);
    SoakedProxy { proxy, in_flight: None, queued: "rouse_activator_held_requests" }
}

fn arguments(site: &LaunchSite, workloads: &str) -> anyhow::Result<Vec<OsString>> {
    let file = site.write("workloads.yaml", workloads)?;
    let [admin, _] = site.spare;
    let workloads = format!("--workloads={}", file.display());
    let admin = format!("--admin-port={}", admin.port());
    Ok(vec![workloads.into(), admin.into(), "--drain-grace=1ms".into()])
}
