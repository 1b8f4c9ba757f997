//! What the handlers of all leased ports share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proxy::health_checks::HealthChecks;
use proxy::tcp::IdleTimeouts;

use crate::requests::at_zero::waiting_page::WaitingPage;
use crate::requests::connection_arrivals::ConnectionArrivals;
use crate::requests::tcp_probes::TcpProbes;
use crate::requests::wake_bound::WakeBound;
use crate::traces::tracer::Tracer;

/// Shared by every handler of the process.
#[derive(Debug)]
pub struct RequestContext {
    /// Recognizes health checks, which are neither counted nor held.
    pub health_checks: HealthChecks,
    /// What browsers get on workloads that have it.
    pub waiting_page: WaitingPage,
    /// When a silent TCP connection stops to count.
    pub idle_timeouts: IdleTimeouts,
    /// Probes that the zero-scaler has announced for TCP ports.
    pub tcp_probes: TcpProbes,
    /// Bounds the workloads that one peer wakes by TCP connections.
    pub wakes: WakeBound,
    /// Connections of clients on all leased ports.
    pub arrivals: ConnectionArrivals,
    /// Set when the process stops. Responses then carry the signal to reconnect.
    pub draining: AtomicBool,
    /// Traces requests; `None` without a collector.
    pub tracer: Option<Arc<Tracer>>,
    /// Worker threads of the data path.
    pub workers: usize,
}
