//! Pool: the connections to one address, as far as nobody uses them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::connection::Connection;

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// How long a connection may rest. Shorter than the other side keeps one: a request that meets the closing is lost if it
    /// may not be sent twice.
    pub idle: Duration,
    /// Resting connections kept at a time; more are closed as they come back.
    pub most_idle: usize,
}

/// Resting connections. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: PoolOptions,
    resting: Mutex<Resting>,
}

#[derive(Debug, Default)]
struct Resting {
    /// By the time of their return, oldest first.
    connections: Vec<(Instant, Connection)>,
    /// Whether a task looks for old ones.
    swept: bool,
}

// === impl Pool ===

impl Pool {
    /// No connections yet.
    pub fn new(options: PoolOptions) -> Self {
        Self(Arc::new(Shared { options, resting: Mutex::default() }))
    }

    /// Whether nothing rests here, and nothing is on its way back.
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.lock().connections.is_empty()
    }

    pub(crate) fn take(&self) -> Option<Connection> {
        let mut resting = self.lock();
        while let Some((_, connection)) = resting.connections.pop() {
            if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    pub(crate) fn put(&self, mut connection: Connection) {
        connection.tidy();
        let mut resting = self.lock();
        if resting.connections.len() >= self.0.options.most_idle {
            return;
        }
        resting.connections.push((Instant::now(), connection));
        // Outside of a runtime the process is at its end.
        if !resting.swept
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            resting.swept = true;
            runtime.spawn(self.clone().sweep());
        }
    }

    /// Closes what has rested for long, until nothing rests any more.
    async fn sweep(self) {
        let idle = self.0.options.idle;
        loop {
            tokio::time::sleep(idle / 4).await;
            let mut resting = self.lock();
            let fresh_from = resting.connections.partition_point(|(since, _)| since.elapsed() > idle);
            resting.connections.drain(..fresh_from);
            if resting.connections.is_empty() {
                *resting = Resting::default();
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Resting> {
        self.0.resting.lock()
    }
}
