//! FairScheduler: limits how many released requests of one workload run in one pass of a worker's
//! task queue.
//!
//! ```text
//!  a released request is ready ─► a permit is left in this pass ─► it runs
//!                              └► none ─► it waits for the next pass ─► it runs
//! ```
//!
//! All tasks of a worker run from one queue. When a burst of held requests is released, hundreds of
//! them have a slot or a response at the same moment, and the requests of other workloads would
//! wait until the last of them has run. With the scheduler, most of the burst is only polled, which
//! costs next to nothing, and runs in later passes. A pass ends when every ready task has run and
//! the sockets were polled again.
//!
//! The [`HttpHandler`](crate::requests::http_handler::HttpHandler) sends requests that were held
//! through it; each worker has its own. Requests that were not held bypass it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::ready;

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// Polls in one pass: less than half a millisecond, since sending a request or a response takes
/// about 20 µs.
const PERMITS: usize = 16;

/// The scheduler of one workload on one worker.
#[derive(Debug)]
pub(super) struct FairScheduler {
    /// Permits left in this pass.
    permits: Arc<Semaphore>,
    /// Whether the task that ends the passes is running.
    is_running: AtomicBool,
}

// === impl FairScheduler ===

impl Default for FairScheduler {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(PERMITS)), is_running: AtomicBool::new(false) }
    }
}

impl FairScheduler {
    /// Runs `work`; each poll of it needs a permit of the current pass. Dropping the future frees
    /// its place.
    pub(super) async fn run<F: Future + Unpin>(self: &Arc<Self>, mut work: F) -> F::Output {
        let mut permit = PollSemaphore::new(self.permits.clone());
        poll_fn(|cx| {
            // The semaphore is never closed.
            if let Some(permit) = ready!(permit.poll_acquire(cx)) {
                permit.forget();
            }
            self.start_passes();
            Pin::new(&mut work).poll(cx)
        })
        .await
    }

    fn start_passes(self: &Arc<Self>) {
        if !self.is_running.swap(true, Ordering::Relaxed) {
            tokio::spawn(self.clone().end_passes());
        }
    }

    /// Ends one pass after the other, until one in which no permit was used.
    async fn end_passes(self: Arc<Self>) {
        loop {
            tokio::task::yield_now().await;
            let taken = PERMITS.saturating_sub(self.permits.available_permits());
            if taken == 0 {
                self.is_running.store(false, Ordering::Relaxed);
                return;
            }
            self.permits.add_permits(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    type Log = Arc<Mutex<Vec<&'static str>>>;

    fn burst(scheduler: &Arc<FairScheduler>, log: &Log) -> JoinSet<()> {
        (0..10 * PERMITS)
            .map(|_| (scheduler.clone(), log.clone()))
            .map(|(scheduler, log)| async move {
                scheduler.run(Box::pin(async { log.lock().push("burst") })).await
            })
            .collect()
    }

    #[tokio::test]
    async fn other_task_waits_for_one_pass_of_a_burst() {
        let (scheduler, log) = (Arc::new(FairScheduler::default()), Log::default());
        let mut burst = burst(&scheduler, &log);
        let other = log.clone();
        burst.spawn(async move { other.lock().push("other") });
        burst.join_all().await;
        let log = log.lock();
        assert_eq!(log.iter().position(|entry| *entry == "other"), Some(PERMITS));
        assert_eq!(log.len(), 10 * PERMITS + 1, "every request runs");
    }

    #[tokio::test]
    async fn cancelled_request_uses_no_permit() {
        let (scheduler, log) = (Arc::new(FairScheduler::default()), Log::default());
        let mut cancelled = burst(&scheduler, &Log::default());
        let burst = burst(&scheduler, &log);
        // The first pass has run, and all others wait.
        yield_now().await;
        cancelled.abort_all();
        while cancelled.join_next().await.is_some() {}
        burst.join_all().await;
        assert_eq!(log.lock().len(), 10 * PERMITS);
    }

    #[tokio::test]
    async fn work_may_need_more_polls_than_a_pass_has_permits() {
        let scheduler = Arc::new(FairScheduler::default());
        let steps = async {
            for _ in 0..3 * PERMITS {
                yield_now().await;
            }
        };
        scheduler.run(Box::pin(steps)).await;
        scheduler.run(std::future::ready(())).await;
    }
}
