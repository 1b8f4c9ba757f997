//! The proxies that are compared. Each has one file with its command line, its configuration and
//! its bounds.
//!
//! To add a proxy, describe it in a file of its own and list it in [`Programs`].

mod activator;
mod bounds;
mod envoy;
mod haproxy;
mod launch_site;
mod nginx;
mod protocol;
mod proxy;
mod queue_proxy;

use std::path::Path;

use bench_proxies::debian::Unpacked;

pub(crate) use self::bounds::Bounds;
pub(crate) use self::envoy::{PROGRAM as ENVOY, WHEEL as ENVOY_WHEEL};
pub(crate) use self::haproxy::NAME as HTTP2_REFERENCE;
pub(crate) use self::nginx::NAME as REFERENCE;
pub(crate) use self::proxy::{Proxy, RunningProxy, SOAKED_LIMIT, SoakedProxy};

use self::protocol::Protocol;

/// The peers' packages with the load generator and the backend of HTTP/2, and the programs in them.
pub(crate) const PACKAGES: [&str; 4] = ["nginx", "haproxy", "nghttp2-client", "nghttp2-server"];
pub(crate) const PROGRAMS: [&str; 4] = [nginx::PROGRAM, haproxy::PROGRAM, H2LOAD, NGHTTPD];
pub(crate) const H2LOAD: &str = "usr/bin/h2load";
pub(crate) const NGHTTPD: &str = "usr/sbin/nghttpd";

/// The programs of all proxies.
#[derive(Clone, Copy)]
pub(crate) struct Programs<'a> {
    pub(crate) peers: &'a Unpacked,
    /// Left out where it cannot be downloaded.
    pub(crate) envoy: Option<&'a Path>,
    pub(crate) queue_proxy: &'a Path,
    pub(crate) activator: Option<&'a Path>,
    /// Other versions of our proxies, which have no bounds.
    pub(crate) baseline_queue_proxy: Option<&'a Path>,
    pub(crate) baseline_activator: Option<&'a Path>,
}

// === impl Programs ===

impl Programs<'_> {
    /// Every proxy for HTTP/1.1, the reference first.
    pub(crate) fn http1(&self) -> Vec<Proxy> {
        let mut all = self.http1_unlimited();
        all.push(queue_proxy::limited(self.queue_proxy));
        all.extend(self.activator.map(activator::without_sidecar));
        all.extend(
            self.baseline_queue_proxy
                .map(|path| queue_proxy::limited(path).into_baseline("queue-proxy-limit-100-baseline")),
        );
        all
    }

    /// Those without a limit of requests, in front of a sidecar or an app.
    pub(crate) fn http1_unlimited(&self) -> Vec<Proxy> {
        let mut all = vec![nginx::proxy(self.peers), haproxy::proxy(self.peers, Protocol::Http1)];
        all.extend(self.envoy.map(|path| envoy::proxy(path, Protocol::Http1)));
        all.push(queue_proxy::unlimited(self.queue_proxy));
        all.extend(self.activator.map(activator::proxy));
        all.extend(self.baselines());
        all
    }

    /// Every proxy for HTTP/2, the reference first. nginx has no HTTP/2 to its backends.
    pub(crate) fn http2(&self) -> Vec<Proxy> {
        let mut all = vec![haproxy::proxy(self.peers, Protocol::Http2)];
        all.extend(self.envoy.map(|path| envoy::proxy(path, Protocol::Http2)));
        all.push(queue_proxy::unlimited(self.queue_proxy));
        all.extend(self.activator.map(activator::proxy));
        all.extend(self.baselines());
        all
    }

    fn baselines(&self) -> impl Iterator<Item = Proxy> {
        let queue_proxy = self.baseline_queue_proxy.map(queue_proxy::unlimited);
        let activator = self.baseline_activator.map(activator::proxy);
        let queue_proxy = queue_proxy.map(|proxy| proxy.into_baseline("queue-proxy-baseline"));
        queue_proxy.into_iter().chain(activator.map(|proxy| proxy.into_baseline("activator-baseline")))
    }
}

/// The proxy to soak: queue-proxy if its binary was given, else the activator.
pub(crate) fn soaked(queue_proxy: Option<&Path>, activator: Option<&Path>) -> Option<SoakedProxy> {
    queue_proxy.map(queue_proxy::soaked).or_else(|| activator.map(activator::soaked))
}
