//! The idle connections to one address.
//!
//! A request takes a connection and the response body gives it back at its end. The newest is taken
//! first, so that the connections of a burst reach the idle timeout and are closed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Idle time after which a connection is closed. Must be shorter than the server's keep-alive
    /// timeout: a request that meets the close fails if it cannot be sent twice.
    pub idle_timeout: Duration,
    /// Idle connections kept; further ones are closed when they come back.
    pub max_idle: usize,
}

/// Idle connections to one address. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: PoolOptions,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// In order of return, oldest first.
    connections: Vec<(Instant, Connection)>,
    /// Whether a task that closes expired connections is running.
    has_sweeper: bool,
}

// === impl Pool ===

impl Pool {
    /// An empty pool.
    pub fn new(options: PoolOptions) -> Self {
        Self(Arc::new(Shared { options, idle: Mutex::default() }))
    }

    /// True if the pool has no idle connection and no request holds a clone of it.
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.0.idle.lock().connections.is_empty()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn take(&self) -> Option<Connection> {
        let mut idle = self.0.idle.lock();
        while let Some((_, connection)) = idle.connections.pop() {
            if connection.is_idle() {
                return Some(connection);
            }
        }
        None
    }

    pub(crate) fn put(&self, mut connection: Connection) {
        connection.shrink();
        let mut idle = self.0.idle.lock();
        if idle.connections.len() >= self.0.options.max_idle {
            return;
        }
        idle.connections.push((Instant::now(), connection));
        // Without a runtime the process is ending.
        if !idle.has_sweeper
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            idle.has_sweeper = true;
            runtime.spawn(self.clone().sweep());
        }
    }

    /// Closes expired connections until none is left.
    async fn sweep(self) {
        let timeout = self.0.options.idle_timeout;
        loop {
            tokio::time::sleep(timeout / 4).await;
            let mut idle = self.0.idle.lock();
            let fresh_from = idle.connections.partition_point(|(since, _)| since.elapsed() > timeout);
            idle.connections.drain(..fresh_from);
            if idle.connections.is_empty() {
                *idle = Idle::default();
                return;
            }
        }
    }
}
