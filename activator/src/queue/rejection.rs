//! Why a request is not served, before any pod has seen it.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::settings::Pause;
use proxy::gateway::grpc::DeadlineExceeded;

use crate::workloads::StartFailure;

/// Why a request is not held, or no longer. The text is the `detail` of the error response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The workload's own queue is full.
    #[error("the workload's queue is full: {bound} requests are waiting for a pod")]
    QueueFull {
        /// Requests that may wait for this workload.
        bound: usize,
    },
    /// The memory budget of the process is full, and this workload has used up its share of it.
    #[error("the activator's memory budget of {bound} bytes is full, and the workload's share is used up")]
    ActivatorMemoryFull {
        /// Bytes of the budget.
        bound: u64,
    },
    /// The part of it for uploads that nothing reads is used up.
    #[error("the activator's memory budget of {bound} bytes has no room for data that no pod reads")]
    UploadMemoryFull {
        /// Bytes of the budget.
        bound: u64,
    },
    /// No slot was free before the deadline.
    #[error("no pod of the workload could take the request within {after:?}")]
    WakeTimeout {
        /// The workload's wake timeout.
        after: Duration,
    },
    /// The deadline of a gRPC call passed while it was held.
    #[error(transparent)]
    DeadlineExceeded(#[from] DeadlineExceeded),
    /// As above, and the client has the address of a pod of the workload, which may wait for
    /// itself.
    #[error(
        "no pod of the workload could take the request within {after:?}; it came from a pod of the workload itself, \
         which must not need its own Service in order to be ready"
    )]
    OwnRequest {
        /// The workload's wake timeout.
        after: Duration,
    },
    /// The workload stays at zero, by an annotation or by hand; requests do not wake it.
    #[error(
        "the workload is paused at zero{}, and requests do not wake it",
        .0.end().map(|_| format!(" until {}", .0)).unwrap_or_default()
    )]
    Paused(Pause),
    /// The pods fail to start, and the zero-scaler has given up waiting for them.
    #[error(
        "the workload's pods cannot start: {}{}", .failure.cause.as_str(),
        .failure.awaited.as_deref().map(|awaited| format!(": {awaited}")).unwrap_or_default()
    )]
    CannotStart {
        /// What keeps them from starting.
        failure: Arc<StartFailure>,
    },
    #[error("the workload was deleted")]
    WorkloadDeleted,
    /// The process ends before the workload has a pod.
    #[error("the activator that held the request stops; another one holds requests now")]
    ActivatorStopping,
}
