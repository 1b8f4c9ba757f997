//! Threads with a tokio runtime of their own. Their work never crosses to another thread.
//!
//! The workers of the proxies, and the thread on which metrics-adapter scrapes pods: each has many
//! connections, and no queue, lock or wake-up between threads on the way of their bytes.

use std::io;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Starts a thread with a tokio runtime, which runs until `end`. All tasks of the runtime are
/// dropped when the thread is joined.
///
/// # Errors
/// When the system has no more threads or descriptors.
pub fn start_thread(name: &str, end: CancellationToken) -> io::Result<(Handle, JoinHandle<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(end.cancelled_owned());
    Ok((handle, thread::Builder::new().name(name.to_owned()).spawn(run)?))
}
