//! Listeners: one for each leased port, opened and closed with the leases.
//!
//! The port on which a request arrives determines its workload, so each listener has the handler of
//! its workload, and no part of the request matters. There may be thousands of listeners: each is a
//! task, not a thread. Closing a listener lets its requests end.
//!
//! A port leads to the first workload that claimed it, until that claim ends. The zero-scaler
//! leases each port once; a second claim is forged, or from two zero-scalers, and must not move
//! requests of one workload to the pods of another.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use component_base::listener::bind_port;
use http::Request;
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::server::{self, ServerOptions};
use proxy::tracked_body::TrackedBody;
use proxy::workers::Workers;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::pods::forwarder::Forwarder;
use crate::requests::http_connection::HttpConnection;
use crate::requests::http_handler::HttpHandler;
use crate::requests::tcp_handler::TcpHandler;
use crate::workloads::LeasedPort;

/// Wait before a bind is retried. The port of a lease that moves is free within milliseconds.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// The open listeners.
#[derive(Debug)]
pub struct Listeners {
    options: ServerOptions,
    open: HashMap<u16, OpenPort>,
    /// The claims of each port, in the order in which they arrived. The first one is open.
    claims: HashMap<u16, VecDeque<PortClaim>>,
    ports: HashMap<Key, Vec<LeasedPort>>,
    workers: Workers<Forwarder>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct OpenPort {
    key: Key,
    lease: LeasedPort,
    handler: PortHandler,
    _close: DropGuard,
}

/// A workload that leases a port, by its own status.
#[derive(Clone, Debug)]
struct PortClaim {
    key: Key,
    lease: LeasedPort,
    handler: PortHandler,
}

/// What handles the connections of one port.
#[derive(Clone, Debug)]
pub enum PortHandler {
    /// Handles requests.
    Http(Arc<HttpHandler>),
    /// Handles connections.
    Tcp(TcpHandler),
}

// === impl Listeners ===

impl Listeners {
    /// No listeners yet. Their connections run on `workers`. All listeners run as `tasks` and end
    /// with `stop`.
    pub fn new(
        options: ServerOptions,
        workers: Workers<Forwarder>,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let (open, claims, ports) = Default::default();
        Self { options, open, claims, ports, workers, stop, tasks }
    }

    /// Opens the ports that the workload leases and no other claimed before, and closes those that
    /// it no longer leases.
    pub fn set_ports(
        &mut self,
        key: &Key,
        leases: &[LeasedPort],
        handler: impl Fn(&LeasedPort) -> PortHandler,
    ) {
        let before = self.ports.insert(key.clone(), leases.to_vec()).unwrap_or_default();
        let ports =
            |leases: &[LeasedPort]| leases.iter().map(|lease| lease.activator_port).collect::<Vec<_>>();
        let after = ports(leases);
        for removed in ports(&before).into_iter().filter(|port| !after.contains(port)) {
            self.end_claim(key, removed);
        }
        for lease in leases {
            self.claim(PortClaim { key: key.clone(), lease: lease.clone(), handler: handler(lease) });
        }
    }

    /// Ends the claims of a workload.
    pub fn close(&mut self, key: &Key) {
        for lease in self.ports.remove(key).unwrap_or_default() {
            self.end_claim(key, lease.activator_port);
        }
    }

    fn claim(&mut self, claim: PortClaim) {
        let port = claim.lease.activator_port;
        let claims = self.claims.entry(port).or_default();
        match claims.iter_mut().find(|other| other.key == claim.key) {
            Some(existing) => *existing = claim,
            None => {
                if let Some(first) = claims.front() {
                    tracing::warn!(port, workload = %claim.key, holder = %first.key, "leased port claimed twice");
                }
                claims.push_back(claim);
            }
        }
        self.open_first(port);
    }

    fn end_claim(&mut self, key: &Key, port: u16) {
        let Some(claims) = self.claims.get_mut(&port) else { return };
        claims.retain(|claim| claim.key != *key);
        if claims.is_empty() {
            self.claims.remove(&port);
        }
        self.open_first(port);
    }

    /// Opens the port for its first claim, and closes it without one.
    fn open_first(&mut self, port: u16) {
        let Some(claim) = self.claims.get(&port).and_then(VecDeque::front) else {
            self.open.remove(&port);
            return;
        };
        let is_same =
            |open: &&mut OpenPort| open.key == claim.key && open.lease.protocol == claim.lease.protocol;
        if let Some(open) = self.open.get_mut(&port).filter(is_same) {
            return open.set_lease(&claim.lease);
        }
        let stop = self.stop.child_token();
        let serve = listen(port, claim.handler.clone(), self.workers.clone(), self.options, stop.clone());
        self.tasks.spawn(serve);
        let open = OpenPort {
            key: claim.key.clone(),
            lease: claim.lease.clone(),
            handler: claim.handler.clone(),
            _close: stop.drop_guard(),
        };
        // The previous listener closes when its drop guard is dropped.
        self.open.insert(port, open);
    }
}

// === impl OpenPort ===

impl OpenPort {
    /// Applies other ports of the pods. The listener stays open, because connections would be
    /// refused while it was reopened.
    fn set_lease(&mut self, lease: &LeasedPort) {
        if self.lease != *lease {
            self.lease.clone_from(lease);
            self.handler.set_port(lease.clone());
        }
    }
}

// === impl PortHandler ===

impl PortHandler {
    fn set_port(&self, port: LeasedPort) {
        match self {
            Self::Http(handler) => handler.set_port(port),
            Self::Tcp(handler) => handler.set_port(port),
        }
    }
}

async fn listen(
    port: u16,
    service: PortHandler,
    workers: Workers<Forwarder>,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let Some(socket) = stop.run_until_cancelled(bind_with_retry(port)).await else { return };
    let handler = match service {
        PortHandler::Http(handler) => handler,
        PortHandler::Tcp(handler) => return handler.serve(socket, workers, options, stop).await,
    };
    let admit = {
        let handler = handler.clone();
        move |_: &ConnectionAddresses| handler.admit_connection()
    };
    let service = move |forwarder: Arc<Forwarder>, connection: &HttpConnection| {
        handler.connection_arrived();
        let (handler, activity) = (handler.clone(), connection.activity());
        move |request: Request<IncomingBody>, addresses: &Arc<ConnectionAddresses>| {
            let (handler, forwarder, addresses) = (handler.clone(), forwarder.clone(), addresses.clone());
            let (active, request) = (activity.begin_request(), Box::new(request));
            async move {
                // The connection is about to close; the client sends its request on another one.
                let Some(active) = active else { return pending().await };
                let response = handler.handle(request, &addresses, &forwarder).await;
                Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, active)))
            }
        }
    };
    server::serve_on_workers(&workers, socket, admit, service, options, stop).await;
}

async fn bind_with_retry(port: u16) -> TcpListener {
    let mut retry = FIRST_RETRY;
    loop {
        match bind_port(port) {
            Ok(socket) => return socket,
            Err(error) => {
                tracing::warn!(port, %error, "bind of leased port failed, retrying")
            }
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(LAST_RETRY);
    }
}
