//! Rounds: of one workload's held requests only so many run at a time, so that a worker's other requests do not stand behind all.
//!
//! ```text
//!  a held request could go on ─► a turn is left in this round ─► it runs
//!                             └► none ─► it waits for the next ─► it runs
//! ```
//!
//! All tasks of a worker stand in one line. When a crowd is let go, hundreds of its requests have a place on a pod or an answer
//! at the same moment, and whoever comes behind them waits until the last of them has run. Here most of them say that they
//! can go on, which costs next to nothing, and run in later rounds. A round is over when everything that was ready has run, and
//! the sockets were looked at again.
//!
//! The [`Handler`](crate::handler::Handler) sends what was held in them, in others on each worker. Requests that pass
//! through have nothing to do with it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::ready;

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// In a round: less than half a millisecond, for the sending of a request or its answer takes some 20 µs.
const TURNS: usize = 16;

/// The rounds of one workload on one worker.
#[derive(Debug)]
pub struct Rounds {
    /// Turns in this round.
    left: Arc<Semaphore>,
    /// Whether a round is under way, at whose end the next one begins.
    is_open: AtomicBool,
}

// === impl Rounds ===

impl Default for Rounds {
    fn default() -> Self {
        Self { left: Arc::new(Semaphore::new(TURNS)), is_open: AtomicBool::new(false) }
    }
}

impl Rounds {
    /// Does `work`, each step of it in turn. Dropping the future gives its turn to another.
    pub async fn take_turns<F: Future + Unpin>(self: &Arc<Self>, mut work: F) -> F::Output {
        let mut turn = PollSemaphore::new(self.left.clone());
        poll_fn(|cx| {
            // The semaphore is never closed.
            if let Some(turn) = ready!(turn.poll_acquire(cx)) {
                turn.forget();
            }
            self.begin_round();
            Pin::new(&mut work).poll(cx)
        })
        .await
    }

    fn begin_round(self: &Arc<Self>) {
        if !self.is_open.swap(true, Ordering::Relaxed) {
            tokio::spawn(self.clone().rounds());
        }
    }

    /// One round after the other, until one in which nobody wanted a turn.
    async fn rounds(self: Arc<Self>) {
        loop {
            tokio::task::yield_now().await;
            let taken = TURNS.saturating_sub(self.left.available_permits());
            if taken == 0 {
                self.is_open.store(false, Ordering::Relaxed);
                return;
            }
            self.left.add_permits(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::task::{JoinSet, yield_now};

    use super::*;

    type Log = Arc<Mutex<Vec<&'static str>>>;

    fn crowd(rounds: &Arc<Rounds>, log: &Log) -> JoinSet<()> {
        (0..10 * TURNS)
            .map(|_| (rounds.clone(), log.clone()))
            .map(|(rounds, log)| async move {
                rounds.take_turns(Box::pin(async { log.lock().unwrap().push("crowd") })).await
            })
            .collect()
    }

    #[tokio::test]
    async fn a_neighbour_waits_for_one_round_of_a_crowd() {
        let (rounds, log) = (Arc::new(Rounds::default()), Log::default());
        let mut crowd = crowd(&rounds, &log);
        let neighbour = log.clone();
        crowd.spawn(async move { neighbour.lock().unwrap().push("neighbour") });
        crowd.join_all().await;
        let log = log.lock().unwrap();
        assert_eq!(log.iter().position(|who| *who == "neighbour"), Some(TURNS));
        assert_eq!(log.len(), 10 * TURNS + 1, "everybody has a turn");
    }

    #[tokio::test]
    async fn who_goes_away_takes_no_turn() {
        let (rounds, log) = (Arc::new(Rounds::default()), Log::default());
        let mut gone = crowd(&rounds, &Log::default());
        let crowd = crowd(&rounds, &log);
        // The first round has run, and all others wait.
        yield_now().await;
        gone.abort_all();
        while gone.join_next().await.is_some() {}
        crowd.join_all().await;
        assert_eq!(log.lock().unwrap().len(), 10 * TURNS);
    }

    #[tokio::test]
    async fn work_goes_on_for_more_steps_than_a_round_has_turns() {
        let rounds = Arc::new(Rounds::default());
        let steps = async {
            for _ in 0..3 * TURNS {
                yield_now().await;
            }
        };
        rounds.take_turns(Box::pin(steps)).await;
        rounds.take_turns(std::future::ready(())).await;
    }
}
