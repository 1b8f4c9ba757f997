//! The proxies that are compared. Each has one file with its command line, its configuration and
//! its bounds.
//!
//! To add a proxy, describe it in a file of its own and list it in [`all`].

mod activator;
mod bounds;
mod haproxy;
mod launch_site;
mod nginx;
mod proxy;
mod queue_proxy;

use std::path::Path;

use bench_proxies::debian::Unpacked;

pub(crate) use self::bounds::Bounds;
pub(crate) use self::nginx::NAME as REFERENCE;
pub(crate) use self::proxy::{Proxy, RunningProxy, SOAKED_LIMIT, SoakedProxy};

/// The peers' packages, and their programs in them.
pub(crate) const PACKAGES: [&str; 2] = ["nginx", "haproxy"];
pub(crate) const PROGRAMS: [&str; 2] = [nginx::PROGRAM, haproxy::PROGRAM];

/// Every proxy, the reference first.
pub(crate) fn all(peers: &Unpacked, queue_proxy: &Path, activator: Option<&Path>) -> Vec<Proxy> {
    let mut all = vec![
        nginx::proxy(peers),
        haproxy::proxy(peers),
        queue_proxy::unlimited(queue_proxy),
        queue_proxy::limited(queue_proxy),
    ];
    all.extend(activator.map(activator::proxy));
    all
}

/// Other versions of our proxies, without bounds.
pub(crate) fn baselines(queue_proxy: Option<&Path>, activator: Option<&Path>) -> Vec<Proxy> {
    let queue_proxies = queue_proxy.into_iter().flat_map(|path| {
        [
            queue_proxy::unlimited(path).into_baseline("queue-proxy-baseline"),
            queue_proxy::limited(path).into_baseline("queue-proxy-limit-100-baseline"),
        ]
    });
    let activators = activator.map(|path| activator::proxy(path).into_baseline("activator-baseline"));
    queue_proxies.chain(activators).collect()
}

/// The proxy to soak: queue-proxy if its binary was given, else the activator.
pub(crate) fn soaked(queue_proxy: Option<&Path>, activator: Option<&Path>) -> Option<SoakedProxy> {
    queue_proxy.map(queue_proxy::soaked).or_else(|| activator.map(activator::soaked))
}
