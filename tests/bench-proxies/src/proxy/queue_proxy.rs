//! queue-proxy, as a pod without limits has it, and with its limit switched on.

use std::ffi::OsString;
use std::path::Path;

use super::{Bounds, Proxy, SOAKED_LIMIT, Site, Soaked};

/// Of the sidecar in every pod: nobody should have a reason to leave it out.
const BOUNDS: Bounds = Bounds {
    rps: 1.0,
    cpu: 1.0,
    p99: 0.9,
    added_p50: Some(1.2),
    idle_memory: Some(8 << 20),
    memory: Some(24 << 20),
    size: Some(6_000_000),
    start: Some(std::time::Duration::from_millis(10)),
};

pub(super) fn unlimited(path: &Path) -> Proxy {
    proxy("queue-proxy", path, |site| Ok(arguments(site, 0)))
}

/// With 1000 connections, 100 requests are at the app and the others wait in the queue, which holds as many.
pub(super) fn limited(path: &Path) -> Proxy {
    proxy("queue-proxy-limit-100", path, |site| Ok(arguments(site, 100)))
}

pub(super) fn soaked(path: &Path) -> Soaked {
    let proxy = proxy("queue-proxy-soak", path, |site| {
        Ok([arguments(site, SOAKED_LIMIT), vec!["--header-timeout=5s".into()]].concat())
    });
    let (in_flight, queued) = ("rouse_queue_proxy_requests_in_flight", "rouse_queue_proxy_queue_depth");
    Soaked { proxy, in_flight: Some(in_flight), queued }
}

fn proxy(name: &'static str, path: &Path, arguments: fn(&Site) -> anyhow::Result<Vec<OsString>>) -> Proxy {
    Proxy {
        name,
        path: path.to_owned(),
        libraries: None,
        version_flag: "--version",
        arguments,
        bounds: Some(&BOUNDS),
    }
}

fn arguments(site: &Site, container_concurrency: u32) -> Vec<OsString> {
    let [stats, admin] = site.spare;
    vec![
        format!("--listen={}", site.listen).into(),
        format!("--stats-listen={stats}").into(),
        format!("--admin-listen={admin}").into(),
        format!("--upstream={}", site.backend).into(),
        format!("--container-concurrency={container_concurrency}").into(),
    ]
}
