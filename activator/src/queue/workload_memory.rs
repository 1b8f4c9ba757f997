//! WorkloadMemory: what the connections and requests of one workload take of the memory budget.
//!
//! Input: connections and requests, from their handlers. What the budget refuses is counted.

use std::sync::Arc;

use proxy::memory::budget::{BudgetExceeded, MemoryAccount, MemoryPermit};
use proxy::memory::estimates::{CONNECTION_BYTES, HTTP2_BYTES};
use proxy::memory::open_connections::ConnectionPlace;

use crate::metrics::workload::LazyMetrics;
use crate::queue::rejection::Rejection;

/// The account of one workload.
#[derive(Debug)]
pub struct WorkloadMemory {
    account: Arc<MemoryAccount>,
    metrics: Arc<LazyMetrics>,
}

// === impl WorkloadMemory ===

impl WorkloadMemory {
    /// Takes from this account, and counts refusals in `metrics`.
    pub(super) fn new(account: Arc<MemoryAccount>, metrics: Arc<LazyMetrics>) -> Self {
        Self { account, metrics }
    }

    /// Takes the memory of a TCP connection; `None` if it must be closed.
    pub fn admit_connection(&self) -> Option<MemoryPermit> {
        self.count_refusal(self.account.take(CONNECTION_BYTES))
    }

    /// Takes the memory of an HTTP connection; `None` if it must be closed.
    pub fn admit_http_connection(&self) -> Option<ConnectionPlace<MemoryPermit>> {
        self.count_refusal(self.account.admit(CONNECTION_BYTES))
    }

    /// Takes what a connection needs more for HTTP/2; `None` if it must be closed.
    pub fn admit_http2(&self) -> Option<MemoryPermit> {
        self.count_refusal(self.account.take(HTTP2_BYTES))
    }

    /// Takes memory of a request.
    ///
    /// # Errors
    /// [`Rejection::ActivatorMemoryFull`].
    pub fn take(&self, bytes: u64) -> Result<MemoryPermit, Rejection> {
        self.account.take(bytes).map_err(|exceeded| {
            self.metrics.get().request_refused();
            Rejection::ActivatorMemoryFull { bound: exceeded.bound }
        })
    }

    /// Takes memory of uploads that nothing reads.
    ///
    /// # Errors
    /// [`Rejection::UploadMemoryFull`].
    pub fn take_upload(&self, bytes: u64) -> Result<MemoryPermit, Rejection> {
        self.account.take_upload(bytes).map_err(|exceeded| {
            self.metrics.get().request_refused();
            Rejection::UploadMemoryFull { bound: exceeded.bound }
        })
    }

    fn count_refusal<T>(&self, taken: Result<T, BudgetExceeded>) -> Option<T> {
        taken.inspect_err(|_| self.metrics.get().connection_refused()).ok()
    }
}
