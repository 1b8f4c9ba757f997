//! One connection that is not HTTP's, from its arrival to its end.
//!
//! ```text
//! probe? ─► admitted? ─► counted in (pokes) ─► throttled: held until a pod has a place ─► tunnel to it ─► relay
//!                                                ▲                                          │
//!                                                └── the pod took no connection ────────────┘
//! ```
//!
//! It is treated as a request is, and waits in the same queue. Its slot is kept until it ends; it counts while bytes flow
//! (`proxy::tcp`). Nothing can be told to such a caller: who cannot be served is closed on.

use std::sync::Arc;

use futures::future::join_all;
use proxy::listener::AcceptedConnection;
use proxy::server::{self, ServerOptions};
use proxy::tcp::ConnectionOutcome;
use proxy::tcp::TcpRelay;
use proxy::tcp::{enable_keepalive, peer_closed};
use proxy::workers::Workers;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::cold_start::ColdStart;
use crate::concurrency_reporter::Counted;
use crate::forward::Forwarder;
use crate::slot_queue::Slot;
use crate::throttler::Shared;
use crate::tunnel::{self, Tunnel};
use crate::workload_throttler::{Refused, WorkloadThrottler};
use crate::workloads::Lease;

/// Pods that may refuse one connection, each after it was asked whether it takes any.
const MOST_REFUSALS: u32 = 5;
/// What a connection that waits keeps of this process's memory, about. What its caller says meanwhile stays with the kernel.
const KEPT_BYTES: u64 = 4096;

/// Handles what arrives on one leased port.
#[derive(Clone, Debug)]
pub struct TcpHandler {
    shared: Arc<Shared>,
    workload: Arc<WorkloadThrottler>,
    lease: Lease,
}

/// A connection that has its pod.
struct Placed {
    pod: Tunnel,
    _slot: Slot,
    counted: Counted,
}

/// Why a connection is not carried.
#[derive(Debug, thiserror::Error)]
enum NotCarried {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the caller went away while it waited")]
    HungUp,
    #[error(transparent)]
    Tunnel(#[from] tunnel::Error),
}

// === impl TcpHandler ===

impl TcpHandler {
    /// Sends connections of `workload` that come by `lease` to its pods.
    pub fn new(shared: Arc<Shared>, workload: Arc<WorkloadThrottler>, lease: Lease) -> Self {
        Self { shared, workload, lease }
    }

    /// Has `workers` serve what comes to `listeners` until `stop`; then waits for what runs, at most the options' time.
    pub async fn serve(
        self,
        listeners: Vec<TcpListener>,
        workers: Workers<Forwarder>,
        options: ServerOptions,
        stop: CancellationToken,
    ) {
        let port = self.shared.expected_probes.open(self.lease.activator_port, self.workload.key().clone());
        let (port, activator_port, until) = (Arc::new(port), self.lease.activator_port, stop.clone());
        let carry = move |_: Arc<Forwarder>, accepted: AcceptedConnection| {
            let (handler, port, stop) = (self.clone(), port.clone(), stop.clone());
            async move {
                // As a whole: its place among the open connections is kept as long.
                let accepted = accepted;
                if let Some(caller) = port.pass(accepted.stream).await {
                    handler.handle(caller, stop).await;
                }
            }
        };
        let serve = |listener| {
            if let Err(error) = enable_keepalive(&listener) {
                tracing::warn!(port = activator_port, %error, "peers are not asked whether they live");
            }
            server::handle_on_workers(&workers, listener, carry.clone(), options, until.clone())
        };
        join_all(listeners.into_iter().map(serve)).await;
    }

    async fn handle(&self, mut caller: TcpStream, stop: CancellationToken) {
        let Placed { mut pod, _slot, counted } = match self.place(&caller).await {
            Ok(placed) => placed,
            Err(error) => {
                tracing::debug!(workload = %self.workload.key(), %error, "connection not carried");
                self.workload.metrics().connection_ended(error.outcome());
                return;
            }
        };
        let relay = TcpRelay {
            idle_timeouts: self.shared.idle_timeouts,
            counted: Some(counted),
            count: || self.shared.reporter.request_in(self.workload.counter()),
            stop,
        };
        if let Err(error) = relay.run(&mut caller, &mut pod).await {
            tracing::debug!(workload = %self.workload.key(), %error, "connection ended");
        }
        self.workload.metrics().connection_ended(ConnectionOutcome::Served);
    }

    async fn place(&self, caller: &TcpStream) -> Result<Placed, NotCarried> {
        let received = Instant::now();
        self.workload.admits()?;
        let counted = self.shared.reporter.request_in(self.workload.counter());
        self.workload.probe_if_wanted();
        let found = async {
            let deadline = received + self.workload.wake_timeout();
            let (slot, pod) = self.find_pod(received, deadline).await?;
            Ok(Placed { pod, _slot: slot, counted })
        };
        tokio::select! {
            biased;
            placed = found => placed,
            () = peer_closed(caller) => Err(NotCarried::HungUp),
        }
    }

    async fn find_pod(&self, received: Instant, deadline: Instant) -> Result<(Slot, Tunnel), NotCarried> {
        let (mut held, mut refusals) = (false, 0);
        loop {
            let mut slot = self.workload.throttle(received, deadline, || KEPT_BYTES).await?;
            slot.run();
            held |= slot.waited();
            let asked = Instant::now();
            let to = (slot.pod().ip, self.lease.pod_port).into();
            let after = self.workload.wake_timeout();
            let opened = timeout_at(deadline, tunnel::open(to)).await;
            match opened.map_err(|_| Refused::Timeout { after })? {
                Ok(pod) => {
                    if held {
                        let poke = self.workload.counter().poke();
                        let start = self.workload.pod_starts().of(&slot.pod().uid);
                        self.workload.cold_start(&ColdStart::of(received, poke, start, slot.pod(), asked));
                    }
                    return Ok((slot, pod));
                }
                Err(error) if error.is_the_pods() && refusals < MOST_REFUSALS => {
                    tracing::debug!(workload = %self.workload.key(), %to, %error, "pod set aside");
                    self.workload.set_aside(slot);
                    (held, refusals) = (true, refusals + 1);
                }
                Err(error) => {
                    tracing::warn!(workload = %self.workload.key(), %to, %error, "a pod took no connection");
                    return Err(error.into());
                }
            }
        }
    }
}

// === impl NotCarried ===

impl NotCarried {
    fn outcome(&self) -> ConnectionOutcome {
        match self {
            Self::Refused(_) | Self::Tunnel(_) => ConnectionOutcome::Refused,
            Self::HungUp => ConnectionOutcome::Cancelled,
        }
    }
}
