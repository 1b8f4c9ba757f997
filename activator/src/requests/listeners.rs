//! Listeners: one for each leased port, opened and closed with the leases.
//!
//! The port on which a request arrives determines its workload, so each listener has the handler of
//! its workload, and no part of the request matters. There may be thousands of listeners: each is a
//! task, not a thread. Closing a listener lets its requests end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use http::Request;
use hyper::body::Incoming;
use proxy::listener::{ConnectionAddresses, bind_port};
use proxy::server::{self, ServerOptions};
use proxy::workers::Workers;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::pods::forwarder::Forwarder;
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
    ports: HashMap<Key, Vec<LeasedPort>>,
    workers: Workers<Forwarder>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct OpenPort {
    key: Key,
    lease: LeasedPort,
    _close: DropGuard,
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
        Self { options, open: HashMap::new(), ports: HashMap::new(), workers, stop, tasks }
    }

    /// Opens the ports that the workload leases, and closes those that it no longer leases.
    pub fn set_ports(
        &mut self,
        key: &Key,
        leases: &[LeasedPort],
        service: impl Fn(LeasedPort) -> PortHandler,
    ) {
        let before = self.ports.insert(key.clone(), leases.to_vec()).unwrap_or_default();
        for removed in before.iter().filter(|lease| !leases.contains(lease)) {
            self.close_port(key, removed.activator_port);
        }
        for lease in leases {
            let is_open = |open: &OpenPort| open.key == *key && open.lease == *lease;
            if !self.open.get(&lease.activator_port).is_some_and(is_open) {
                self.open_port(key, *lease, service(*lease));
            }
        }
    }

    /// Closes all ports of a workload.
    pub fn close(&mut self, key: &Key) {
        for lease in self.ports.remove(key).unwrap_or_default() {
            self.close_port(key, lease.activator_port);
        }
    }

    fn open_port(&mut self, key: &Key, lease: LeasedPort, service: PortHandler) {
        let stop = self.stop.child_token();
        let workers = self.workers.clone();
        self.tasks.spawn(listen(lease.activator_port, service, workers, self.options, stop.clone()));
        let open = OpenPort { key: key.clone(), lease, _close: stop.drop_guard() };
        // The newest lease of a port wins; the previous listener closes with its drop guard.
        self.open.insert(lease.activator_port, open);
    }

    fn close_port(&mut self, key: &Key, port: u16) {
        if self.open.get(&port).is_some_and(|open| open.key == *key) {
            self.open.remove(&port);
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
    let service = move |forwarder: Arc<Forwarder>| {
        let handler = handler.clone();
        move |request: Request<Incoming>, addresses: &Arc<ConnectionAddresses>| {
            let (handler, forwarder, addresses) = (handler.clone(), forwarder.clone(), addresses.clone());
            async move { Ok::<_, Infallible>(handler.handle(request, &addresses, &forwarder).await) }
        }
    };
    server::serve_on_workers(&workers, socket, service, options, stop).await;
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
