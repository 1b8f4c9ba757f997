//! Worker threads that handle the traffic, each with a tokio runtime of its own.
//!
//! ```text
//!  worker: accept ─┬─ in turn ─► client ─► handler ─► connections to pods
//!                  └───────────► another worker: client ─► handler ─► …
//! ```
//!
//! A request never leaves its thread: no queue, lock or wake-up between threads on its way. So each
//! worker has state of its own, mainly connections to the other side. Connections are dispatched
//! round-robin: they live long, and the kernel would not spread a few of them evenly, neither with
//! a listener for each worker nor with one that all of them poll. An activator has thousands of
//! listeners, each of them on one worker: the part of its connections that stays there needs no
//! wake-up of another thread, and a short connection costs mostly that.
//!
//! The proxies drain their requests themselves; dropping the last clone of [`Workers`] aborts what
//! still runs, and waits until that is done: the end of the process would close connections as if
//! their messages were complete.

use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use component_base::threads::start_thread;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::listener::AcceptedConnection;

/// Upper bound on the number of workers.
const MAX_WORKERS: usize = 64;

/// Worker threads and their state. Clones share them.
#[derive(Debug)]
pub struct Workers<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    workers: Vec<Worker<T>>,
    dispatched: AtomicUsize,
    /// Tasks that [`Workers::run`] began.
    begun: AtomicUsize,
    end: CancellationToken,
}

#[derive(Debug)]
struct Worker<T> {
    runtime: Handle,
    thread: JoinHandle<()>,
    state: Arc<T>,
}

/// The number of workers: `configured`, else the available processors up to `default_max`; never
/// more than 64.
pub fn worker_count(configured: Option<NonZeroUsize>, default_max: usize) -> usize {
    let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get).min(default_max);
    configured.map_or_else(processors, NonZeroUsize::get).min(MAX_WORKERS)
}

// === impl Workers ===

impl<T: Send + Sync + 'static> Workers<T> {
    /// Starts one thread per item of `states`.
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub fn start(states: impl IntoIterator<Item = T>) -> io::Result<Self> {
        let end = CancellationToken::new();
        let start = |state| {
            let (runtime, thread) = start_thread("worker", end.clone())?;
            Ok(Worker { runtime, thread, state: Arc::new(state) })
        };
        let workers = states.into_iter().map(start).collect::<io::Result<_>>()?;
        Ok(Self(Arc::new(Shared {
            workers,
            dispatched: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            end,
        })))
    }

    /// Runs `task` on the next worker until it completes, or this future is dropped.
    ///
    /// # Errors
    /// Those of the task; also when the worker has ended.
    pub(crate) async fn run(
        &self,
        task: impl Future<Output = io::Result<()>> + Send + 'static,
    ) -> io::Result<()> {
        let next = self.next(&self.0.begun).ok_or(io::ErrorKind::NotFound)?;
        AbortOnDropHandle::new(next.runtime.spawn(task)).await?
    }

    fn next(&self, turns: &AtomicUsize) -> Option<&Worker<T>> {
        let turn = turns.fetch_add(1, Ordering::Relaxed).checked_rem(self.0.workers.len());
        self.0.workers.get(turn?)
    }

    /// Runs `handle` with the connection and the worker's state on the next worker.
    pub fn dispatch<F>(
        &self,
        accepted: AcceptedConnection,
        handle: impl FnOnce(Arc<T>, AcceptedConnection) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(Worker { runtime, thread, state }) = self.next(&self.0.dispatched) else { return };
        let state = state.clone();
        if thread.thread().id() == thread::current().id() {
            drop(runtime.spawn(handle(state, accepted)));
            return;
        }
        match accepted.detach() {
            Ok(detached) => drop(runtime.spawn(async move {
                match detached.attach() {
                    Ok(accepted) => handle(state, accepted).await,
                    Err(error) => log_lost(&error),
                }
            })),
            Err(error) => log_lost(&error),
        }
    }
}

impl<T> Clone for Workers<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

// === impl Shared ===

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.end.cancel();
        for Worker { thread, .. } in self.workers.drain(..) {
            // A worker cannot wait for itself.
            if thread.thread().id() != thread::current().id() {
                // A panic of the thread was reported.
                let _ = thread.join();
            }
        }
    }
}

fn log_lost(error: &io::Error) {
    tracing::debug!(%error, "connection lost on dispatch to its worker");
}
