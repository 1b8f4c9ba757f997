//! haproxy.

use super::{Proxy, Site};
use crate::debian::Peers;

pub(super) const CONFIGURATION: &str = include_str!("../../configs/haproxy.cfg");

pub(super) fn proxy(peers: &Peers) -> Proxy {
    Proxy {
        name: "haproxy",
        path: peers.haproxy.clone(),
        libraries: Some(peers.libraries.clone()),
        version_flag: "-v",
        arguments: |site: &Site| {
            let file = site.write("haproxy.cfg", CONFIGURATION)?;
            // In the foreground.
            Ok(vec!["-db".into(), "-f".into(), file.into()])
        },
        bounds: None,
    }
}
