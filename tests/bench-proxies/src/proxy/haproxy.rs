//! haproxy.

use bench_proxies::debian::Unpacked;

use super::{Proxy, Site};

pub(super) const PROGRAM: &str = "usr/sbin/haproxy";
pub(super) const CONFIGURATION: &str = include_str!("../../configs/haproxy.cfg");

pub(super) fn proxy(peers: &Unpacked) -> Proxy {
    Proxy {
        name: "haproxy",
        path: peers.root.join(PROGRAM),
        environment: peers.environment(),
        version_flag: "-v",
        arguments: |site: &Site| {
            let file = site.write("haproxy.cfg", CONFIGURATION)?;
            // In the foreground.
            Ok(vec!["-db".into(), "-f".into(), file.into()])
        },
        bounds: None,
    }
}
