//! The activator in the path of a workload that is awake: no request has to wait.

use std::ffi::OsString;
use std::path::Path;

use super::{Bounds, Proxy, SOAKED_LIMIT, Site, Soaked};

/// Being in the path should be no concern. Its memory is what `held` measures.
const BOUNDS: Bounds = Bounds {
    rps: 0.9,
    cpu: 1.1,
    p99: 1.0,
    added_p50: None,
    idle_memory: None,
    memory: None,
    size: None,
    start: None,
};
/// A pod that is Ready gets requests without a probe.
const WORKLOADS: &str = "workloads:
- name: shop/web
  ports: [{listen: @LISTEN_PORT@, pod: @BACKEND_PORT@}]
  pods: [{ip: @BACKEND_IP@, ready: true}]
";

pub(super) fn proxy(path: &Path) -> Proxy {
    Proxy::ours("activator", path, |site| arguments(site, WORKLOADS), &BOUNDS)
}

pub(super) fn soaked(path: &Path) -> Soaked {
    let arguments = |site: &Site| {
        let limited = format!("{WORKLOADS}  containerConcurrency: {SOAKED_LIMIT}\n");
        Ok([arguments(site, &limited)?, vec!["--header-timeout=5s".into()]].concat())
    };
    let proxy = Proxy::ours("activator-soak", path, arguments, &BOUNDS);
    Soaked { proxy, in_flight: None, queued: "rouse_activator_held_requests" }
}

fn arguments(site: &Site, workloads: &str) -> anyhow::Result<Vec<OsString>> {
    let file = site.write("workloads.yaml", workloads)?;
    let [admin, _] = site.spare;
    let workloads = format!("--workloads={}", file.display());
    Ok(vec![workloads.into(), format!("--admin-port={}", admin.port()).into()])
}
