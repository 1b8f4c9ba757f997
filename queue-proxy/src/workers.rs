//! Workers: the threads that carry the traffic, each with a runtime and connections to the app of its own.
//!
//! ```text
//!  main thread: accept ─┬─ in turn ─► worker 1: caller ─► handler ─► its pool ─► app
//!  (admin, stats, drain)└───────────► worker 2
//! ```
//!
//! A request never leaves its thread: no queue, no lock and no wake-up between two threads on its way. Connections are
//! dealt out in turn, because they live long and the kernel would not spread few of them evenly.

use std::future::Future;
use std::thread;

use chassis::server::{Accepted, Acceptor, Detached, Options};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Connections on their way to a worker. It takes one within microseconds, unless it has no processor to run on.
const ON_THE_WAY: usize = 64;

/// What a worker does with its connections.
pub(crate) trait Serve: Send + 'static {
    /// Serves what `next` gives until it gives none, and then waits for what still runs, within the options' bounds.
    fn serve(self, next: impl AsyncFnMut() -> Option<Accepted>, options: Options)
    -> impl Future<Output = ()>;
}

/// Threads that serve connections until there are no more.
#[derive(Debug)]
pub(crate) struct Workers(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    connections: mpsc::Sender<Detached>,
    /// Its sender is dropped at the end of the thread.
    end: oneshot::Receiver<()>,
}

// === impl Workers ===

impl Workers {
    /// One thread for each server.
    ///
    /// # Errors
    /// When the system gives no more threads or descriptors.
    pub(crate) fn start<S: Serve>(servers: Vec<S>, options: Options) -> std::io::Result<Self> {
        servers.into_iter().map(|server| Worker::start(server, options)).collect::<Result<_, _>>().map(Self)
    }

    /// Deals out what `acceptor` lets in, until `stop`; then waits for the requests of all workers.
    pub(crate) async fn serve(self, acceptor: Acceptor, stop: CancellationToken) {
        for worker in self.0.iter().cycle() {
            let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await else { break };
            match accepted.detach() {
                // A worker never ends before its queue does.
                Ok(connection) => _ = worker.connections.send(connection).await,
                Err(error) => tracing::debug!(%error, "a connection was lost between two threads"),
            }
        }
        drop(acceptor);
        for Worker { connections, end } in self.0 {
            drop(connections);
            let _ = end.await;
        }
    }
}

// === impl Worker ===

impl Worker {
    fn start(server: impl Serve, options: Options) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (connections, mut queue) = mpsc::channel::<Detached>(ON_THE_WAY);
        let (ended, end) = oneshot::channel::<()>();
        thread::Builder::new().name("worker".to_owned()).spawn(move || {
            runtime.block_on(server.serve(async || next(&mut queue).await, options));
            drop(ended);
        })?;
        Ok(Self { connections, end })
    }
}

/// The next connection that arrives whole.
async fn next(queue: &mut mpsc::Receiver<Detached>) -> Option<Accepted> {
    loop {
        match queue.recv().await?.attach() {
            Ok(accepted) => return Some(accepted),
            Err(error) => tracing::debug!(%error, "a connection was lost between two threads"),
        }
    }
}
