//! Deadlines: wakes requests that have waited for too long, without a timer for each.
//!
//! Timeouts are long and may be a little late, so the requests of a worker stand in one list, and one task reads it now and
//! then, for as long as anybody stands in it. A place in the list costs a request some 30 ns, two short locks that nobody
//! contends; a timer of the runtime costs 50 ns and a hundred bytes, and can only wake the task that polls it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use slab::Slab;
use tokio::time::Instant;

/// The list is read this many times in the shortest timeout, which is how late an end may be.
const ROUNDS: u32 = 20;
/// Bounds of the time between two rounds.
const ROUND: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// The list of one worker. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    list: Mutex<List>,
    round: Duration,
}

#[derive(Debug, Default)]
struct List {
    waiting: Slab<Waiting>,
    /// Whether a task reads the list.
    read: bool,
}

#[derive(Debug)]
struct Waiting {
    due: Instant,
    over: bool,
    waker: Waker,
}

/// A place in the list; given back when dropped.
///
/// Wakers are dropped after the lock: one may be the last of a task that stands in the list itself.
#[derive(Debug)]
pub(crate) struct Deadline {
    deadlines: Deadlines,
    place: usize,
}

// === impl Deadlines ===

impl Deadlines {
    /// A list for timeouts of which `shortest` is the shortest.
    pub(crate) fn new(shortest: Duration) -> Self {
        let round = (shortest / ROUNDS).clamp(ROUND.0, ROUND.1);
        Self(Arc::new(Shared { list: Mutex::default(), round }))
    }

    /// Wakes `waker` once `due` has passed, a round later at most.
    pub(crate) fn at(&self, due: Instant, waker: &Waker) -> Deadline {
        let mut list = self.lock();
        let place = list.waiting.insert(Waiting { due, over: false, waker: waker.clone() });
        // Outside of a runtime the process is at its end.
        if !list.read
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            list.read = true;
            runtime.spawn(self.clone().read());
        }
        Deadline { deadlines: self.clone(), place }
    }

    /// Reads the list until it is empty.
    async fn read(self) {
        let mut over = Vec::new();
        loop {
            tokio::time::sleep(self.0.round).await;
            if !self.lock().collect(Instant::now(), &mut over) {
                return;
            }
            // Outside of the lock: who is woken may leave its place at once.
            over.drain(..).for_each(Waker::wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.list.lock()
    }
}

// === impl List ===

impl List {
    /// Notes whose time is over by `now`, and whom to wake for it. False if nobody waits.
    fn collect(&mut self, now: Instant, wake: &mut Vec<Waker>) -> bool {
        for (_, waiting) in &mut self.waiting {
            if !waiting.over && waiting.due <= now {
                waiting.over = true;
                wake.push(waiting.waker.clone());
            }
        }
        self.read = !self.waiting.is_empty();
        self.read
    }
}

// === impl Deadline ===

impl Deadline {
    /// Ready once its time is over; until then the caller's task is the one to be woken.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        let mut list = self.deadlines.lock();
        let Some(waiting) = list.waiting.get_mut(self.place).filter(|waiting| !waiting.over) else {
            return Poll::Ready(());
        };
        if !waiting.waker.will_wake(cx.waker()) {
            let before = std::mem::replace(&mut waiting.waker, cx.waker().clone());
            drop(list);
            drop(before);
        }
        Poll::Pending
    }

    /// Waits anew, until `due`, in the name of `waker`.
    pub(crate) fn reset(&self, due: Instant, waker: &Waker) {
        let mut list = self.deadlines.lock();
        let anew = Waiting { due, over: false, waker: waker.clone() };
        let before = list.waiting.get_mut(self.place).map(|waiting| std::mem::replace(waiting, anew));
        drop(list);
        drop(before);
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let waiting = self.deadlines.lock().waiting.try_remove(self.place);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    const SHORTEST: Duration = Duration::from_secs(2);

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_woken_once_and_little_late() {
        let deadlines = Deadlines::new(SHORTEST);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let cx = Context::from_waker(&waker);
        let deadline = deadlines.at(Instant::now() + SHORTEST, &waker);
        tokio::time::sleep(SHORTEST - Duration::from_millis(1)).await;
        assert!(deadline.poll_over(&cx).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        tokio::time::sleep(SHORTEST / ROUNDS + Duration::from_millis(2)).await;
        assert!(deadline.poll_over(&cx).is_ready());
        tokio::time::sleep(SHORTEST).await;
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);

        deadline.reset(Instant::now() + SHORTEST, &waker);
        assert!(deadline.poll_over(&cx).is_pending());
        tokio::time::sleep(2 * SHORTEST).await;
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_list_is_not_read_and_a_new_one_is() {
        let deadlines = Deadlines::new(SHORTEST);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        for round in 1..=2 {
            let other = deadlines.at(Instant::now() + 100 * SHORTEST, &waker);
            drop(deadlines.at(Instant::now(), &waker));
            let due = deadlines.at(Instant::now(), &waker);
            tokio::time::sleep(SHORTEST).await;
            assert_eq!(woken.0.load(Ordering::SeqCst), round);
            drop((due, other));
            tokio::time::sleep(SHORTEST).await;
            assert!(!deadlines.lock().read);
        }
    }
}
