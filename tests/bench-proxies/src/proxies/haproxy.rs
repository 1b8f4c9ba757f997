//! haproxy, a peer without bounds.

use std::ffi::OsString;

use anyhow::Result;
use bench_proxies::debian::Unpacked;

use super::launch_site::LaunchSite;
use super::protocol::Protocol;
use super::proxy::Proxy;

pub(crate) const NAME: &str = "haproxy";
pub(super) const PROGRAM: &str = "usr/sbin/haproxy";
const CONFIGURATION: &str = include_str!("../../configs/haproxy.cfg");

pub(super) fn proxy(peers: &Unpacked, protocol: Protocol) -> Proxy {
    Proxy {
        name: NAME,
        path: peers.root.join(PROGRAM),
        environment: peers.environment(),
        version_flag: "-v",
        arguments: match protocol {
            Protocol::Http1 => |site| arguments(site, Protocol::Http1),
            Protocol::Http2 => |site| arguments(site, Protocol::Http2),
        },
        bounds: None,
    }
}

pub(super) fn configuration(protocol: Protocol) -> String {
    let proto = match protocol {
        Protocol::Http1 => "h1",
        Protocol::Http2 => "h2",
    };
    CONFIGURATION.replace("@PROTOCOL@", proto)
}

fn arguments(site: &LaunchSite, protocol: Protocol) -> Result<Vec<OsString>> {
    let file = site.write("haproxy.cfg", &configuration(protocol))?;
    // In the foreground.
    Ok(vec!["-db".into(), "-f".into(), file.into()])
}
