//! TimeoutList: wakes requests whose timeout may be exceeded, without a timer for each request.
//!
//! Request timeouts are long and may be slightly late. So one list has all waiting requests of a
//! worker, and one task scans it periodically while it is not empty.
//!
//! A timer of tokio for each request, and a task for each streamed response, would replace this
//! module. They cost 1.4 % more user instructions per request, and every request pays for them:
//! 26,570 instead of 26,190 with one connection, 24,780 instead of 24,420 with 16 (callgrind,
//! static x86-64 build of profile `image`, one worker, keep-alive GETs over HTTP/1.1 with 14 bytes
//! of body, difference between runs of 9,600 and 1,600 requests).

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use slab::Slab;
use tokio::time::Instant;

/// The list is scanned this many times within the shortest timeout, so a timeout is at most 5 %
/// late.
const SCANS: u32 = 20;
/// Bounds of the time between two scans.
const SCAN_INTERVAL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// The waiting requests of one worker. Clones share the list.
#[derive(Clone, Debug)]
pub(crate) struct TimeoutList(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<ListState>,
    scan_interval: Duration,
}

#[derive(Debug, Default)]
struct ListState {
    waiting: Slab<WaitingRequest>,
    /// Whether a task scans the list.
    is_scanned: bool,
}

#[derive(Debug)]
struct WaitingRequest {
    due: Instant,
    /// The request was woken for this due time.
    woken: bool,
    waker: Waker,
}

/// An entry of the list, removed when this is dropped.
///
/// Wakers are dropped after the lock is released: the last waker of a task drops the task, which
/// may have an entry of its own.
#[derive(Debug)]
pub(crate) struct TimeoutEntry {
    list: TimeoutList,
    key: usize,
}

// === impl TimeoutList ===

impl TimeoutList {
    /// A list for timeouts of at least `shortest`.
    pub(crate) fn new(shortest: Duration) -> Self {
        let scan_interval = (shortest / SCANS).clamp(SCAN_INTERVAL.0, SCAN_INTERVAL.1);
        Self(Arc::new(Shared { state: Mutex::default(), scan_interval }))
    }

    /// Wakes `waker` after `due`, at most one scan interval late.
    pub(crate) fn insert(&self, due: Instant, waker: &Waker) -> TimeoutEntry {
        let mut state = self.lock();
        let key = state.waiting.insert(WaitingRequest { due, woken: false, waker: waker.clone() });
        // The runtime is missing only while the process ends.
        if !state.is_scanned
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.is_scanned = true;
            runtime.spawn(self.clone().scan());
        }
        TimeoutEntry { list: self.clone(), key }
    }

    /// Scans the list until it is empty.
    async fn scan(self) {
        let mut due = Vec::new();
        loop {
            tokio::time::sleep(self.0.scan_interval).await;
            if !self.lock().collect_due(Instant::now(), &mut due) {
                return;
            }
            // After the lock is released, because a woken request may remove its entry at once.
            due.drain(..).for_each(Waker::wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ListState> {
        self.0.state.lock()
    }
}

// === impl ListState ===

impl ListState {
    /// Adds the wakers of requests that are due by `now`; returns false if the list is empty.
    fn collect_due(&mut self, now: Instant, due: &mut Vec<Waker>) -> bool {
        for (_, request) in &mut self.waiting {
            if !request.woken && request.due <= now {
                request.woken = true;
                due.push(request.waker.clone());
            }
        }
        self.is_scanned = !self.waiting.is_empty();
        self.is_scanned
    }
}

// === impl TimeoutEntry ===

impl TimeoutEntry {
    /// Ready once due; before that, the task of `cx` is woken when it is due.
    pub(crate) fn poll_due(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.list.lock();
        let Some(request) = state.waiting.get_mut(self.key).filter(|request| !request.woken) else {
            return Poll::Ready(());
        };
        if !request.waker.will_wake(cx.waker()) {
            let before = std::mem::replace(&mut request.waker, cx.waker().clone());
            drop(state);
            drop(before);
        }
        Poll::Pending
    }

    /// Sets a new due time and a new waker.
    pub(crate) fn reset(&self, due: Instant, waker: &Waker) {
        let mut state = self.list.lock();
        let request = WaitingRequest { due, woken: false, waker: waker.clone() };
        let before = state.waiting.get_mut(self.key).map(|before| std::mem::replace(before, request));
        drop(state);
        drop(before);
    }
}

impl Drop for TimeoutEntry {
    fn drop(&mut self) {
        let request = self.list.lock().waiting.try_remove(self.key);
        drop(request);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    const SHORTEST: Duration = Duration::from_secs(2);

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wakes_each_request_once_within_a_scan_interval() {
        let list = TimeoutList::new(SHORTEST);
        let woken = Arc::new(WakeCounter::default());
        let waker = Waker::from(woken.clone());
        let cx = Context::from_waker(&waker);
        let entry = list.insert(Instant::now() + SHORTEST, &waker);
        tokio::time::sleep(SHORTEST - Duration::from_millis(1)).await;
        assert!(entry.poll_due(&cx).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        tokio::time::sleep(SHORTEST / SCANS + Duration::from_millis(2)).await;
        assert!(entry.poll_due(&cx).is_ready());
        tokio::time::sleep(SHORTEST).await;
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);

        entry.reset(Instant::now() + SHORTEST, &waker);
        assert!(entry.poll_due(&cx).is_pending());
        tokio::time::sleep(2 * SHORTEST).await;
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn scans_the_list_only_while_it_is_not_empty() {
        let list = TimeoutList::new(SHORTEST);
        let woken = Arc::new(WakeCounter::default());
        let waker = Waker::from(woken.clone());
        for expected in 1..=2 {
            let other = list.insert(Instant::now() + 100 * SHORTEST, &waker);
            drop(list.insert(Instant::now(), &waker));
            let due = list.insert(Instant::now(), &waker);
            tokio::time::sleep(SHORTEST).await;
            assert_eq!(woken.0.load(Ordering::SeqCst), expected);
            drop((due, other));
            tokio::time::sleep(SHORTEST).await;
            assert!(!list.lock().is_scanned);
        }
    }
}
