//! Listeners: one per leased port, opened and closed with the leases.
//!
//! The port on which a request arrives says which workload it is for, so each listener has the handler of its workload and
//! nothing of the request is looked at. There may be thousands: each is a task, none a thread. Closing a listener lets its
//! requests end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use futures::future::join_all;
use http::Request;
use hyper::body::Incoming;
use proxy::listener::ConnectionAddresses;
use proxy::server::{self, ServerOptions};
use proxy::workers::Workers;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::forward::Forwarder;
use crate::handler::Handler;
use crate::tcp_handler::TcpHandler;
use crate::workloads::Lease;

/// Wait before a port that is taken is tried again. A lease that moves is free within milliseconds.
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// The open listeners.
#[derive(Debug)]
pub struct Listeners {
    options: ServerOptions,
    open: HashMap<u16, Open>,
    ports: HashMap<Key, Vec<Lease>>,
    workers: Workers<Forwarder>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct Open {
    key: Key,
    lease: Lease,
    _close: DropGuard,
}

/// What handles the connections of one port.
#[derive(Clone, Debug)]
pub enum Service {
    /// By requests.
    Http(Arc<Handler>),
    /// As they are.
    Tcp(TcpHandler),
}

// === impl Listeners ===

impl Listeners {
    /// None yet. What they let in is carried by `workers`. All end with `stop`, and run as `tasks`.
    pub fn new(
        options: ServerOptions,
        workers: Workers<Forwarder>,
        stop: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        Self { options, open: HashMap::new(), ports: HashMap::new(), workers, stop, tasks }
    }

    /// Opens what the workload leases and has not open, and closes what it leases no more.
    pub fn keep(&mut self, key: &Key, leases: &[Lease], service: impl Fn(Lease) -> Service) {
        let before = self.ports.insert(key.clone(), leases.to_vec()).unwrap_or_default();
        for gone in before.iter().filter(|lease| !leases.contains(lease)) {
            self.close_port(key, gone.activator_port);
        }
        for lease in leases {
            let is_open = |open: &Open| open.key == *key && open.lease == *lease;
            if !self.open.get(&lease.activator_port).is_some_and(is_open) {
                self.open_port(key, *lease, service(*lease));
            }
        }
    }

    /// Closes everything of a workload.
    pub fn close(&mut self, key: &Key) {
        for lease in self.ports.remove(key).unwrap_or_default() {
            self.close_port(key, lease.activator_port);
        }
    }

    fn open_port(&mut self, key: &Key, lease: Lease, service: Service) {
        let stop = self.stop.child_token();
        let workers = self.workers.clone();
        self.tasks.spawn(listen(lease.activator_port, service, workers, self.options, stop.clone()));
        let open = Open { key: key.clone(), lease, _close: stop.drop_guard() };
        // The newest lease of a port wins; the listener of the one before closes with its guard.
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
    service: Service,
    workers: Workers<Forwarder>,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let Some(sockets) = stop.run_until_cancelled(bind_at_last(port)).await else { return };
    let handler = match service {
        Service::Http(handler) => handler,
        Service::Tcp(handler) => return handler.serve(sockets, workers, options, stop).await,
    };
    let service = move |forwarder: Arc<Forwarder>| {
        let handler = handler.clone();
        move |request: Request<Incoming>, ends: &Arc<ConnectionAddresses>| {
            let (handler, forwarder, ends) = (handler.clone(), forwarder.clone(), ends.clone());
            async move { Ok::<_, Infallible>(handler.handle(request, &ends, &forwarder).await) }
        }
    };
    let serve = |socket| server::serve_on_workers(&workers, socket, service.clone(), options, stop.clone());
    join_all(sockets.into_iter().map(serve)).await;
}

async fn bind_at_last(port: u16) -> Vec<TcpListener> {
    let mut retry = FIRST_RETRY;
    loop {
        match bind(port).await {
            Ok(sockets) => return sockets,
            Err(error) => {
                tracing::warn!(port, %error, "leased port cannot be listened on; it is tried again")
            }
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(LAST_RETRY);
    }
}

/// A socket of IPv6 takes IPv4 as well, unless the host is set up otherwise or has no IPv6: then the second bind succeeds.
async fn bind(port: u16) -> std::io::Result<Vec<TcpListener>> {
    let both = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await;
    let old = TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await;
    match (both, old) {
        (Err(_), Err(error)) => Err(error),
        (both, old) => Ok(both.into_iter().chain(old).collect()),
    }
}
