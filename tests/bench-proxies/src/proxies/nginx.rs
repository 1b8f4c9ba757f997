//! nginx, the reference of all ratios.

use bench_proxies::debian::Unpacked;

use super::launch_site::LaunchSite;
use super::proxy::Proxy;

pub(crate) const NAME: &str = "nginx";
pub(super) const PROGRAM: &str = "usr/sbin/nginx";
pub(super) const CONFIGURATION: &str = include_str!("../../configs/nginx.conf");

pub(super) fn proxy(peers: &Unpacked) -> Proxy {
    Proxy {
        name: NAME,
        path: peers.root.join(PROGRAM),
        environment: peers.environment(),
        version_flag: "-v",
        arguments: |site: &LaunchSite| {
            let file = site.write("nginx.conf", CONFIGURATION)?;
            Ok(vec!["-c".into(), file.into(), "-e".into(), "stderr".into()])
        },
        bounds: None,
    }
}
