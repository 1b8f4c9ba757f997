//! nginx, to which all others are compared.

use super::{Proxy, Site};
use crate::debian::Peers;

pub(crate) const NAME: &str = "nginx";
pub(super) const CONFIGURATION: &str = include_str!("../../configs/nginx.conf");

pub(super) fn proxy(peers: &Peers) -> Proxy {
    Proxy {
        name: NAME,
        path: peers.nginx.clone(),
        libraries: Some(peers.libraries.clone()),
        version_flag: "-v",
        arguments: |site: &Site| {
            let file = site.write("nginx.conf", CONFIGURATION)?;
            Ok(vec!["-c".into(), file.into(), "-e".into(), "stderr".into()])
        },
        bounds: None,
    }
}
