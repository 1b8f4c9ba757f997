//! nginx, to which all others are compared.

use bench_proxies::debian::Unpacked;

use super::{Proxy, Site};

pub(crate) const NAME: &str = "nginx";
pub(super) const PROGRAM: &str = "usr/sbin/nginx";
pub(super) const CONFIGURATION: &str = include_str!("../../configs/nginx.conf");

pub(super) fn proxy(peers: &Unpacked) -> Proxy {
    Proxy {
        name: NAME,
        path: peers.root.join(PROGRAM),
        environment: peers.environment(),
        version_flag: "-v",
        arguments: |site: &Site| {
            let file = site.write("nginx.conf", CONFIGURATION)?;
            Ok(vec!["-c".into(), file.into(), "-e".into(), "stderr".into()])
        },
        bounds: None,
    }
}
