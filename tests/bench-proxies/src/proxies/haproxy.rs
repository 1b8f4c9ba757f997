//! haproxy, a peer without bounds.

use bench_proxies::debian::Unpacked;

use super::launch_site::LaunchSite;
use super::proxy::Proxy;

pub(super) const PROGRAM: &str = "usr/sbin/haproxy";
pub(super) const CONFIGURATION: &str = include_str!("../../configs/haproxy.cfg");

pub(super) fn proxy(peers: &Unpacked) -> Proxy {
    Proxy {
        name: "haproxy",
        path: peers.root.join(PROGRAM),
        environment: peers.environment(),
        version_flag: "-v",
        arguments: |site: &LaunchSite| {
            let file = site.write("haproxy.cfg", CONFIGURATION)?;
            // In the foreground.
            Ok(vec!["-db".into(), "-f".into(), file.into()])
        },
        bounds: None,
    }
}
