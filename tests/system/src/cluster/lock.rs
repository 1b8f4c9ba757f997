//! Which tests may run at the same time: those that only use the installation share it, those that
//! change it run alone.
//!
//! The tests share one process and one cluster. The test harness starts all of them at once, and
//! each waits here:
//!
//! ```text
//! shared     SHARED at a time, in the order of their names
//! exclusive  one at a time, while no shared one runs or waits; meanwhile the next one prepares
//! ```
//!
//! A test that ends prints for how long it used the cluster.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::{MutexGuard, Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

/// Shared tests at a time: more would exceed two cores.
const SHARED: usize = 4;

static SLOTS: Semaphore = Semaphore::const_new(SHARED);
static NEXT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
static USES: LazyLock<watch::Sender<Uses>> = LazyLock::new(watch::Sender::default);

/// The tests that use the cluster, and the shared ones that wait for it.
#[derive(Debug, Default)]
struct Uses {
    waiting: usize,
    shared: usize,
    exclusive: bool,
}

/// The right to use the cluster, until it is released or its last clone is dropped.
#[derive(Clone, Debug)]
pub struct ClusterGuard(Arc<Mutex<Option<Use>>>);

/// The turn of the next exclusive test, which prepares while another test may still use the
/// cluster.
#[derive(Debug)]
pub struct Turn {
    _next: MutexGuard<'static, ()>,
}

/// A test's use of the cluster, from now until it is dropped.
#[derive(Debug)]
struct Use {
    name: String,
    began: Instant,
    /// Of a shared test.
    slot: Option<SemaphorePermit<'static>>,
}

/// For a test that changes nothing outside its namespace and whose bounds leave room for other
/// tests' load.
pub async fn shared(name: &str) -> ClusterGuard {
    USES.send_modify(|uses| uses.waiting += 1);
    let slot = SLOTS.acquire().await.ok();
    until(|uses| {
        let free = !uses.exclusive;
        if free {
            uses.waiting -= 1;
            uses.shared += 1;
        }
        free
    })
    .await;
    ClusterGuard::new(name, slot)
}

/// For a test that restarts or scales parts of the installation, or that measures times. One test
/// at a time has the turn.
pub async fn turn() -> Turn {
    Turn { _next: NEXT.lock().await }
}

/// Repeats `take` after each change, until it returns true.
async fn until(mut take: impl FnMut(&mut Uses) -> bool) {
    let mut changes = USES.subscribe();
    while !USES.send_if_modified(&mut take) {
        // The sender is never dropped.
        let _ = changes.changed().await;
    }
}

// === impl Turn ===

impl Turn {
    /// Waits until no other test uses the cluster, and passes the turn on.
    pub async fn exclusive(self, name: &str) -> ClusterGuard {
        until(|uses| {
            let free = !uses.exclusive && uses.shared == 0 && uses.waiting == 0;
            uses.exclusive |= free;
            free
        })
        .await;
        ClusterGuard::new(name, None)
    }
}

// === impl ClusterGuard ===

impl ClusterGuard {
    fn new(name: &str, slot: Option<SemaphorePermit<'static>>) -> Self {
        let used = Use { name: name.to_owned(), began: Instant::now(), slot };
        Self(Arc::new(Mutex::new(Some(used))))
    }

    /// Ends the use of the cluster for all clones.
    pub fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

// === impl Use ===

impl Drop for Use {
    fn drop(&mut self) {
        let kind = if self.slot.is_some() { "shared" } else { "exclusive" };
        println!("{}: {} s, {kind}", self.name, self.began.elapsed().as_secs());
        USES.send_modify(|uses| match self.slot {
            Some(_) => uses.shared -= 1,
            None => uses.exclusive = false,
        });
    }
}
