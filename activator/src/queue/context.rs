//! What the throttlers of all workloads share.

use proxy::memory::budget::MemoryBudget;
use std::sync::Arc;

use crate::args::Limits;
use crate::metrics::Metrics;
use crate::pods::forwarder::Forwarder;
use crate::reports::concurrency_reporter::ConcurrencyReporter;

/// Shared by every [`WorkloadThrottler`](crate::queue::workload_throttler::WorkloadThrottler) of
/// the process.
#[derive(Debug)]
pub struct ThrottlerContext {
    /// Sends probes to pods. Requests go through the forwarders of the workers.
    pub prober: Forwarder,
    /// Reports concurrency, pokes and slow wakes.
    pub reporter: ConcurrencyReporter,
    /// All metric families.
    pub metrics: Arc<Metrics>,
    /// Bounds the memory of all workloads together.
    pub memory: MemoryBudget,
    /// Queue bounds and timeouts.
    pub limits: Limits,
    /// Worker threads of the data path.
    pub workers: usize,
}
