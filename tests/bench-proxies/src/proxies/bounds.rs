//! Performance bounds of a proxy of ours. Ratios are to another proxy in the same round.

use std::time::Duration;

/// Bounds of one proxy; a figure with `None` is not checked.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// Name of the proxy that the ratios are to.
    pub(crate) reference: &'static str,
    /// Least ratio of requests a second when saturated.
    pub(crate) rps: f64,
    /// Greatest ratio of CPU time per request when saturated.
    pub(crate) cpu: f64,
    /// Greatest ratio of the 99th percentile at the fixed load.
    pub(crate) p99: Option<f64>,
    /// Greatest ratio of the latency that the proxy adds to the median on one connection.
    pub(crate) added_p50: Option<f64>,
    /// Most bytes resident before the first connection.
    pub(crate) idle_memory: Option<u64>,
    /// Most bytes resident with the most connections.
    pub(crate) memory: Option<u64>,
    /// Most bytes of its binary.
    pub(crate) size: Option<u64>,
    /// Longest time from exec until the proxy listens.
    pub(crate) start: Option<Duration>,
}
