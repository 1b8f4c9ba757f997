//! Workers: the threads that carry the traffic, each with a runtime of its own.
//!
//! ```text
//!  the process's runtime: accept ─┬─ in turn ─► worker: caller ─► handler ─► its connections ─► app or pods
//!  (admin, watches, drain …)      └───────────► worker
//! ```
//!
//! A request never leaves its thread: no queue, no lock and no wake-up between two threads on its way. For that, each worker
//! keeps something of its own: what has the connections to the other side. Callers are dealt out in turn, because their
//! connections live long and the kernel would not spread few of them evenly.
//!
//! Both proxies have workers, and wait themselves for what they carry: it is cut when the last clone of these goes. The metrics-adapter
//! has one such [`start_thread`] for reading pods, for the same reasons.

use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{self, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::listener::AcceptedConnection;

/// More would be a mistake.
const MOST: usize = 64;

/// Threads that take connections, and what each keeps. Clones share them.
#[derive(Debug)]
pub struct Workers<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    workers: Vec<Worker<T>>,
    dealt: AtomicUsize,
    _end: DropGuard,
}

#[derive(Debug)]
struct Worker<T> {
    runtime: Handle,
    keeps: Arc<T>,
}

/// As many as are asked for, at most 64; else as there are processors for this process, at most `unasked`.
pub fn worker_count(asked_for: Option<NonZeroUsize>, unasked: usize) -> usize {
    let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get).min(unasked);
    asked_for.map_or_else(processors, NonZeroUsize::get).min(MOST)
}

// === impl Workers ===

impl<T: Send + Sync + 'static> Workers<T> {
    /// Starts a thread for each of what they keep.
    ///
    /// # Errors
    /// When the system gives no more threads or descriptors.
    pub fn start(keep: impl IntoIterator<Item = T>) -> io::Result<Self> {
        let end = CancellationToken::new();
        let start =
            |keeps| Ok(Worker { runtime: start_thread("worker", end.clone())?, keeps: Arc::new(keeps) });
        let workers = keep.into_iter().map(start).collect::<io::Result<_>>()?;
        Ok(Self(Arc::new(Shared { workers, dealt: AtomicUsize::new(0), _end: end.drop_guard() })))
    }

    /// Has the next worker in turn `carry` the connection to its end, with what it keeps.
    pub fn dispatch<F>(
        &self,
        accepted: AcceptedConnection,
        carry: impl FnOnce(Arc<T>, AcceptedConnection) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let Shared { workers, dealt, .. } = &*self.0;
        let turn = dealt.fetch_add(1, Ordering::Relaxed).checked_rem(workers.len());
        let Some(Worker { runtime, keeps }) = turn.and_then(|turn| workers.get(turn)) else { return };
        let keeps = keeps.clone();
        match accepted.detach() {
            Ok(detached) => drop(runtime.spawn(async move {
                match detached.attach() {
                    Ok(accepted) => carry(keeps, accepted).await,
                    Err(error) => lost(&error),
                }
            })),
            Err(error) => lost(&error),
        }
    }
}

impl<T> Clone for Workers<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A thread with a runtime of its own, which it drives until `end`.
///
/// # Errors
/// When the system gives no more threads or descriptors.
pub fn start_thread(name: &str, end: CancellationToken) -> io::Result<Handle> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(end.cancelled_owned()))?;
    Ok(handle)
}

fn lost(error: &io::Error) {
    tracing::debug!(%error, "a connection was lost between two threads");
}
