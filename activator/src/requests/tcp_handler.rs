//! TcpHandler: one connection of a TCP port, from its arrival to its end.
//!
//! ```text
//! probe? ─► admitted? ─► counted (pokes) ─► held until a pod has a slot ─► tunnel to it ─► relay
//!                                             ▲                              │
//!                                             └─ pod accepts no connection ──┘
//! ```
//!
//! A connection is treated as a request and waits in the same queue. It keeps its slot until it
//! ends, and counts as concurrency while bytes flow ([`proxy::tcp`]). A peer whose connections wake
//! many workloads waits before its connections count. There is no way to send an
//! error: a connection that cannot be served is closed.

use std::sync::Arc;

use arc_swap::ArcSwap;
use autoscaler::history::FirstRequest;
use proxy::client_stream::abort::Abort;
use proxy::listener::{AcceptedConnection, ConnectionAddresses};
use proxy::server::{self, ServerOptions};
use proxy::tcp::{ConnectionOutcome, IdleTimeouts, TcpRelay, client_left};
use proxy::workers::Workers;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::pods::forwarder::Forwarder;
use crate::pods::tcp_tunnel::{self, Tunnel, TunnelError};
use crate::queue::rejection::Rejection;
use crate::queue::slot_queue::SlotPermit;
use crate::queue::workload_throttler::WorkloadThrottler;
use crate::reports::request_counter::CountedRequest;
use crate::requests::context::RequestContext;
use crate::workloads::LeasedPort;

/// Pods that may refuse one connection.
const MAX_REFUSALS: u32 = 5;
/// What a held connection takes beside the memory of each connection: its client's data stays in
/// the kernel meanwhile.
const HELD_BYTES: u64 = 0;

/// Handles the connections of one leased port.
#[derive(Clone, Debug)]
pub struct TcpHandler {
    context: Arc<RequestContext>,
    workload: Arc<WorkloadThrottler>,
    /// Its pods' ports change with the workload; the listener stays.
    lease: Arc<ArcSwap<LeasedPort>>,
}

/// A connection with a tunnel to its pod.
struct PlacedConnection {
    pod: Tunnel,
    _slot: SlotPermit,
    counted: CountedRequest,
}

/// Why a connection is closed without a pod.
#[derive(Debug, thiserror::Error)]
enum TcpRejection {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    #[error("the client disconnected while it was held")]
    ClientDisconnected,
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}

// === impl TcpHandler ===

impl TcpHandler {
    /// Forwards connections of `workload` that arrive on the leased port to its pods.
    pub fn new(context: Arc<RequestContext>, workload: Arc<WorkloadThrottler>, lease: LeasedPort) -> Self {
        Self { context, workload, lease: Arc::new(ArcSwap::from_pointee(lease)) }
    }

    /// Applies a new state of the leased port, for all clones.
    pub fn set_port(&self, lease: LeasedPort) {
        self.lease.store(Arc::new(lease));
    }

    /// Serves the connections of `listener` on `workers` until `stop`, then waits for them, at
    /// most the drain timeout of the options.
    pub async fn serve(
        self,
        listener: TcpListener,
        workers: Workers<Forwarder>,
        options: ServerOptions,
        stop: CancellationToken,
    ) {
        let port =
            self.context.tcp_probes.open(self.lease.load().activator_port, self.workload.key().clone());
        let (port, until, workload) = (Arc::new(port), stop.clone(), self.workload.clone());
        let admit = move |_: &ConnectionAddresses| workload.memory().admit_connection();
        let carry = move |_: Arc<Forwarder>, accepted: AcceptedConnection| {
            let (handler, port, stop) = (self.clone(), port.clone(), stop.clone());
            async move {
                // Moved as a whole, so that it counts as an open connection until the end of this
                // task.
                let accepted = accepted;
                if let Some(client) = port.filter(accepted.stream).await {
                    handler.context.arrivals.record();
                    handler.handle(client, &accepted.connection, stop).await;
                }
            }
        };
        server::handle_on_workers(&workers, listener, admit, carry, options, until).await;
    }

    #[tracing::instrument(level = "debug", name = "tcp_connection", skip_all, fields(workload = %self.workload.key()))]
    async fn handle(&self, mut client: TcpStream, addresses: &ConnectionAddresses, stop: CancellationToken) {
        let PlacedConnection { mut pod, _slot, counted } = match self.place(&client, addresses).await {
            Ok(placed) => placed,
            Err(error) => {
                tracing::debug!(%error, "connection rejected");
                // Without a byte, an orderly end would look like an empty answer of the app.
                client.abort();
                self.workload.metrics().connection_ended(error.outcome());
                return;
            }
        };
        let relay = TcpRelay {
            idle_timeouts: IdleTimeouts {
                close_after: self.workload.settings().timeouts.idle(),
                ..self.context.idle_timeouts
            },
            counted: Some(counted),
            count: || self.count(addresses),
            stop,
        };
        if let Err(error) = relay.run(&mut client, &mut pod).await {
            tracing::debug!(%error, "connection ended with an error");
        }
        self.workload.metrics().connection_ended(ConnectionOutcome::Served);
    }

    async fn place(
        &self,
        client: &TcpStream,
        addresses: &ConnectionAddresses,
    ) -> Result<PlacedConnection, TcpRejection> {
        let received = Instant::now();
        let deadline = received + self.workload.wake_timeout();
        self.workload.check_admission()?;
        let placed = async {
            self.wait_for_turn(addresses, deadline).await?;
            let counted = self.count(addresses);
            self.workload.prober().probe_if_wanted();
            let (slot, pod) = self.open_tunnel(addresses, received, deadline).await?;
            Ok(PlacedConnection { pod, _slot: slot, counted })
        };
        tokio::select! {
            biased;
            placed = placed => placed,
            () = client_left(client) => Err(TcpRejection::ClientDisconnected),
        }
    }

    fn count(&self, addresses: &ConnectionAddresses) -> CountedRequest {
        self.workload.count_request(|| Some(FirstRequest::of_connection(addresses.peer_ip())))
    }

    /// Waits until the peer may wake the workload, if the connection would.
    async fn wait_for_turn(
        &self,
        addresses: &ConnectionAddresses,
        deadline: Instant,
    ) -> Result<(), Rejection> {
        if self.workload.any_pod().is_some() {
            return Ok(());
        }
        let turn = self.context.wakes.turn(addresses.peer_ip(), self.workload.key());
        let after = self.workload.wake_timeout();
        timeout_at(deadline, turn).await.map_err(|_| Rejection::WakeTimeout { after })
    }

    async fn open_tunnel(
        &self,
        addresses: &ConnectionAddresses,
        received: Instant,
        deadline: Instant,
    ) -> Result<(SlotPermit, Tunnel), TcpRejection> {
        let (mut held, mut refusals) = (false, 0);
        loop {
            let mut slot = self.workload.acquire(received, deadline, || HELD_BYTES).await?;
            slot.mark_running();
            held |= slot.waited();
            let forwarded = Instant::now();
            let after = self.workload.wake_timeout();
            let to = slot.pod().address(&self.lease.load()).ok_or(TunnelError::NoPort)?;
            let opened = timeout_at(deadline, tcp_tunnel::open(slot.pod(), to, addresses)).await;
            match opened.map_err(|_| Rejection::WakeTimeout { after })? {
                Ok(pod) => {
                    if held {
                        self.workload.cold_starts().trace(received, slot.pod(), forwarded);
                    }
                    return Ok((slot, pod));
                }
                Err(error) if error.is_retryable() && refusals < MAX_REFUSALS => {
                    tracing::debug!(pod = %to, %error, "pod ejected");
                    self.workload.eject(slot);
                    (held, refusals) = (true, refusals + 1);
                }
                Err(error) => {
                    tracing::warn!(workload = %self.workload.key(), pod = %to, %error, "tunnel to pod failed");
                    return Err(error.into());
                }
            }
        }
    }
}

// === impl TcpRejection ===

impl TcpRejection {
    fn outcome(&self) -> ConnectionOutcome {
        match self {
            Self::Rejected(_) | Self::Tunnel(_) => ConnectionOutcome::Refused,
            Self::ClientDisconnected => ConnectionOutcome::Cancelled,
        }
    }
}
