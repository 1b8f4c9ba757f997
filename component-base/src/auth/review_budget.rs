//! Bounds the reviews that run at the same time: each client can request any number of them.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};
use tokio::time::timeout;

/// How long a review may wait for its turn.
const WAIT: Duration = Duration::from_secs(2);
/// Waiting reviews for each running one. More are rejected at once.
const WAITING_PER_RUNNING: usize = 16;

/// A bound on concurrent reviews.
#[derive(Debug)]
pub(super) struct ReviewBudget {
    running: Semaphore,
    admitted: Semaphore,
}

/// Held while a review runs.
#[derive(Debug)]
pub(super) struct ReviewPermit<'a> {
    _running: SemaphorePermit<'a>,
    _admitted: SemaphorePermit<'a>,
}

/// Too many reviews run or wait.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("too many reviews at the same time")]
pub(super) struct ReviewBudgetExceeded;

// === impl ReviewBudget ===

impl ReviewBudget {
    pub(super) fn new(running: usize) -> Self {
        let admitted = running * (1 + WAITING_PER_RUNNING);
        Self { running: Semaphore::new(running), admitted: Semaphore::new(admitted) }
    }

    /// Waits for a place, briefly.
    pub(super) async fn acquire(&self) -> Result<ReviewPermit<'_>, ReviewBudgetExceeded> {
        let admitted = self.admitted.try_acquire();
        let admitted = admitted.map_err(|_: TryAcquireError| ReviewBudgetExceeded)?;
        let running = timeout(WAIT, self.running.acquire()).await.map_err(|_| ReviewBudgetExceeded)?;
        let running = running.map_err(|_| ReviewBudgetExceeded)?;
        Ok(ReviewPermit { _running: running, _admitted: admitted })
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rejects_reviews_that_wait_too_long_or_are_too_many() {
        let budget = ReviewBudget::new(2);
        let running = [budget.acquire().await.unwrap(), budget.acquire().await.unwrap()];
        let began = tokio::time::Instant::now();
        assert!(budget.acquire().await.is_err());
        assert_eq!(began.elapsed(), WAIT);
        let waiting = join_all((0..2 * WAITING_PER_RUNNING).map(|_| budget.acquire()));
        let excess = async {
            tokio::task::yield_now().await;
            let began = tokio::time::Instant::now();
            assert!(budget.acquire().await.is_err());
            assert_eq!(began.elapsed(), Duration::ZERO, "rejected at once");
        };
        tokio::join!(waiting, excess);
        drop(running);
        assert!(budget.acquire().await.is_ok());
    }
}
