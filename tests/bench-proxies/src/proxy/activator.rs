//! The activator in the path of a workload that is awake: no request has to wait.

use std::path::Path;

use super::{Bounds, Proxy, Site};

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
/// A pod that is Ready gets requests without a probe, which the backend could not answer.
const WORKLOADS: &str = "workloads:
- name: shop/web
  ports: [{listen: @LISTEN_PORT@, pod: @BACKEND_PORT@}]
  pods: [{ip: @BACKEND_IP@, ready: true}]
";

pub(super) fn proxy(path: &Path) -> Proxy {
    Proxy {
        name: "activator",
        path: path.to_owned(),
        libraries: None,
        version_flag: "--version",
        arguments: |site: &Site| {
            let file = site.write("workloads.yaml", WORKLOADS)?;
            let [admin, _] = site.spare;
            let workloads = format!("--workloads={}", file.display());
            Ok(vec![workloads.into(), format!("--admin-port={}", admin.port()).into()])
        },
        bounds: Some(&BOUNDS),
    }
}
