//! queue-proxy, once without a concurrency limit and once with one.

use std::ffi::OsString;
use std::path::Path;

use super::bounds::Bounds;
use super::launch_site::LaunchSite;
use super::nginx;
use super::proxy::{Proxy, SOAKED_LIMIT, SoakedProxy};

/// Without a limit.
pub(super) const NAME: &str = "queue-proxy";

/// At least as good as nginx, because the sidecar runs in every pod.
const BOUNDS: Bounds = Bounds {
    reference: nginx::NAME,
    rps: 1.0,
    cpu: 1.0,
    p99: Some(0.9),
    added_p50: Some(1.2),
    idle_memory: Some(8 << 20),
    memory: Some(24 << 20),
    size: Some(6_000_000),
    start: Some(std::time::Duration::from_millis(10)),
};

pub(super) fn unlimited(path: &Path) -> Proxy {
    Proxy::ours(NAME, path, |site| Ok(arguments(site, 0)), &BOUNDS)
}

/// With 1000 connections, 100 requests are at the app and 900 wait in the queue, which has 1000
/// places.
pub(super) fn limited(path: &Path) -> Proxy {
    Proxy::ours("queue-proxy-limit-100", path, |site| Ok(arguments(site, 100)), &BOUNDS)
}

pub(super) fn soaked(path: &Path) -> SoakedProxy {
    let arguments =
        |site: &LaunchSite| Ok([arguments(site, SOAKED_LIMIT), vec!["--header-timeout=5s".into()]].concat());
    let proxy = Proxy::ours("queue-proxy-soak", path, arguments, &BOUNDS);
    let (in_flight, queued) = ("rouse_queue_proxy_requests_in_flight", "rouse_queue_proxy_queue_depth");
    SoakedProxy { proxy, in_flight: Some(in_flight), queued }
}

fn arguments(site: &LaunchSite, container_concurrency: u32) -> Vec<OsString> {
    let [stats, admin] = site.spare;
    vec![
        format!("--listen={}", site.listen).into(),
        format!("--stats-listen={stats}").into(),
        format!("--admin-listen={admin}").into(),
        format!("--upstream={}", site.backend).into(),
        format!("--container-concurrency={container_concurrency}").into(),
        "--drain-quiet-period=1ms".into(),
    ]
}
