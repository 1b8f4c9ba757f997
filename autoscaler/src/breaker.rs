//! Breaker: how many requests may run at a time, and how many more may wait for it.
//!
//! The queue-proxy holds one in front of its app (limit: the container concurrency); the activator holds one per workload
//! (limit: what its pods can take, which is 0 while there is none) and one per pod. The limit changes while requests run:
//! lowering it interrupts nobody, raising it lets waiters in.
//!
//! Waiters are served strictly first come, first served; a newcomer never overtakes them. A slot is handed over inside
//! the lock, so none can be lost between its release and the waiter's wake-up, and a waiter that is dropped after it was
//! given its slot, but before it ran, passes the slot on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A concurrency limit with a bounded queue in front of it. Clones share one limit and one queue.
#[derive(Clone)]
pub struct Breaker {
    shared: Arc<Shared>,
}

/// How many permits a [`Breaker`] hands out at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit: nobody waits, requests are only counted.
    Unlimited,
    /// At most so many. `AtMost(0)` is "no capacity yet": everybody waits.
    AtMost(usize),
}

/// The right to run one request. Gives its slot to the next waiter when dropped.
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct Permit {
    shared: Arc<Shared>,
}

/// As many callers wait already as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {bound} requests are waiting")]
pub struct QueueFull {
    /// How many may wait.
    pub bound: usize,
}

struct Shared {
    queue_bound: usize,
    state: Mutex<State>,
}

/// Invariant, whenever the lock is free and no `set_limit` is under way: `waiting` is empty or `in_flight >= limit`.
struct State {
    limit: Limit,
    in_flight: usize,
    /// By ticket, which is the order of arrival. A map, so that a caller that goes away leaves from the middle cheaply.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    next_ticket: u64,
}

/// A caller's place in the queue, or the slot it was given and has not taken up yet.
struct Waiter<'a> {
    shared: &'a Arc<Shared>,
    ticket: u64,
}

// === impl Breaker ===

impl Breaker {
    /// A breaker whose queue holds at most `queue_bound` callers; with 0 nobody waits.
    pub fn new(limit: Limit, queue_bound: usize) -> Self {
        let state = State { limit, in_flight: 0, waiting: BTreeMap::new(), next_ticket: 0 };
        Self { shared: Arc::new(Shared { queue_bound, state: Mutex::new(state) }) }
    }

    /// Waits for a slot. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    /// [`QueueFull`], without waiting, if nobody more may wait.
    pub async fn acquire(&self) -> Result<Permit, QueueFull> {
        let (waiter, granted) = {
            let mut state = self.shared.lock();
            if state.take_slot() {
                return Ok(self.shared.permit());
            }
            if state.waiting.len() >= self.shared.queue_bound {
                return Err(QueueFull { bound: self.shared.queue_bound });
            }
            let (ticket, granted) = state.enqueue();
            (Waiter { shared: &self.shared, ticket }, granted)
        };
        // The sender is dropped unsent only by the waiter itself, which lives in this very future.
        let _ = granted.await;
        Ok(waiter.into_permit())
    }

    /// Takes a slot if one is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<Permit> {
        self.shared.lock().take_slot().then(|| self.shared.permit())
    }

    /// Changes the limit. Running requests go on even above a lower one; waiters enter up to a higher one.
    pub fn set_limit(&self, limit: Limit) {
        self.shared.lock().limit = limit;
        while let Some(slot) = self.shared.grant() {
            let _ = slot.send(());
        }
    }

    /// The limit in force.
    pub fn limit(&self) -> Limit {
        self.shared.lock().limit
    }

    /// Permits that are out.
    pub fn in_flight(&self) -> usize {
        self.shared.lock().in_flight
    }

    /// Callers that wait.
    pub fn queued(&self) -> usize {
        self.shared.lock().waiting.len()
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Breaker")
            .field("limit", &state.limit)
            .field("in_flight", &state.in_flight)
            .field("queued", &state.waiting.len())
            .field("queue_bound", &self.shared.queue_bound)
            .finish()
    }
}

// === impl Limit ===

impl Limit {
    /// Reads a container concurrency, in which 0 means no limit.
    pub fn of_container_concurrency(value: u32) -> Self {
        match value {
            0 => Self::Unlimited,
            n => Self::AtMost(n as usize),
        }
    }

    fn admits(self, in_flight: usize) -> bool {
        match self {
            Self::Unlimited => true,
            Self::AtMost(limit) => in_flight < limit,
        }
    }
}

// === impl Permit ===

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.release();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>) -> Permit {
        Permit { shared: Arc::clone(self) }
    }

    /// Gives a free slot to whoever waits longest. The caller wakes them after the lock is gone: a waker may drop a task
    /// that holds a permit of this very breaker.
    fn grant(&self) -> Option<oneshot::Sender<()>> {
        self.lock().grant()
    }

    fn release(&self) {
        let next = {
            let mut state = self.lock();
            state.in_flight = state.in_flight.saturating_sub(1);
            state.grant()
        };
        if let Some(slot) = next {
            let _ = slot.send(());
        }
    }
}

// === impl State ===

impl State {
    fn take_slot(&mut self) -> bool {
        let free = self.waiting.is_empty() && self.limit.admits(self.in_flight);
        self.in_flight += usize::from(free);
        free
    }

    fn enqueue(&mut self) -> (u64, oneshot::Receiver<()>) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let (slot, granted) = oneshot::channel();
        self.waiting.insert(ticket, slot);
        (ticket, granted)
    }

    fn grant(&mut self) -> Option<oneshot::Sender<()>> {
        if !self.limit.admits(self.in_flight) {
            return None;
        }
        let (_, slot) = self.waiting.pop_first()?;
        self.in_flight += 1;
        Some(slot)
    }
}

// === impl Waiter ===

impl Waiter<'_> {
    fn into_permit(self) -> Permit {
        let permit = self.shared.permit();
        std::mem::forget(self);
        permit
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let still_queued = self.shared.lock().waiting.remove(&self.ticket).is_some();
        if !still_queued {
            self.shared.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;

    type Acquire = Pin<Box<dyn Future<Output = Result<Permit, QueueFull>>>>;

    fn acquire(breaker: &Breaker) -> Acquire {
        let breaker = breaker.clone();
        Box::pin(async move { breaker.acquire().await })
    }

    fn poll(acquire: &mut Acquire) -> Poll<Result<Permit, QueueFull>> {
        acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn granted(acquire: &mut Acquire) -> Option<Permit> {
        match poll(acquire) {
            Poll::Ready(result) => Some(result.unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_caller_beyond_limit_and_queue_is_refused_until_one_ends() {
        let breaker = Breaker::new(Limit::AtMost(1), 1);
        let running = breaker.try_acquire().unwrap();
        let mut waiting = acquire(&breaker);
        assert!(granted(&mut waiting).is_none());
        assert_eq!(poll(&mut acquire(&breaker)).map(|r| r.unwrap_err()), Poll::Ready(QueueFull { bound: 1 }));

        drop(running);
        let running = granted(&mut waiting).unwrap();
        let mut next = acquire(&breaker);
        assert!(granted(&mut next).is_none());
        drop(running);
        assert!(granted(&mut next).is_some());
    }

    #[test]
    fn a_queue_of_nobody_refuses_at_once() {
        let breaker = Breaker::new(Limit::AtMost(1), 0);
        let _running = breaker.try_acquire().unwrap();
        assert!(matches!(poll(&mut acquire(&breaker)), Poll::Ready(Err(QueueFull { bound: 0 }))));
    }

    #[test]
    fn unlimited_and_no_capacity_are_different_things() {
        assert_eq!(Limit::of_container_concurrency(0), Limit::Unlimited);
        assert_eq!(Limit::of_container_concurrency(7), Limit::AtMost(7));

        let breaker = Breaker::new(Limit::AtMost(0), 2);
        let mut first = acquire(&breaker);
        let mut second = acquire(&breaker);
        assert!(granted(&mut first).is_none() && granted(&mut second).is_none());
        breaker.set_limit(Limit::Unlimited);
        let _both = (granted(&mut first).unwrap(), granted(&mut second).unwrap());
        assert_eq!((breaker.in_flight(), breaker.queued()), (2, 0));
    }

    #[test]
    fn a_dropped_waiter_frees_its_place_at_once() {
        let breaker = Breaker::new(Limit::AtMost(1), 1);
        let _running = breaker.try_acquire().unwrap();
        let mut waiting = acquire(&breaker);
        assert!(granted(&mut waiting).is_none());
        drop(waiting);
        assert_eq!(breaker.queued(), 0);
        assert!(poll(&mut acquire(&breaker)).is_pending());
    }

    #[test]
    fn a_waiter_dropped_with_its_slot_passes_it_on() {
        let breaker = Breaker::new(Limit::AtMost(1), 2);
        let running = breaker.try_acquire().unwrap();
        let mut first = acquire(&breaker);
        let mut second = acquire(&breaker);
        assert!(granted(&mut first).is_none() && granted(&mut second).is_none());
        drop(running);
        drop(first);
        let _running = granted(&mut second).unwrap();
        assert_eq!((breaker.in_flight(), breaker.queued()), (1, 0));
    }

    #[test]
    fn a_newcomer_does_not_overtake() {
        let breaker = Breaker::new(Limit::AtMost(0), 2);
        let mut waiting = acquire(&breaker);
        assert!(granted(&mut waiting).is_none());
        breaker.set_limit(Limit::AtMost(1));
        assert!(breaker.try_acquire().is_none());
        assert!(granted(&mut waiting).is_some());
    }

    #[test]
    fn lowering_the_limit_interrupts_nobody() {
        let breaker = Breaker::new(Limit::AtMost(2), 1);
        let both = (breaker.try_acquire().unwrap(), breaker.try_acquire().unwrap());
        breaker.set_limit(Limit::AtMost(1));
        let mut waiting = acquire(&breaker);
        assert!(granted(&mut waiting).is_none());
        drop(both.0);
        assert!(granted(&mut waiting).is_none());
        drop(both.1);
        assert!(granted(&mut waiting).is_some());
    }

    #[tokio::test]
    async fn a_release_wakes_a_sleeping_task() {
        let breaker = Breaker::new(Limit::AtMost(1), 100);
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let breaker = breaker.clone();
                tokio::spawn(async move {
                    let _permit = breaker.acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    assert_eq!(breaker.in_flight(), 1);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!((breaker.in_flight(), breaker.queued()), (0, 0));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arrive,
        /// Polls every waiter, so that those with a slot start to run.
        Run,
        Finish(usize),
        GoAway(usize),
        SetLimit(Limit),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Arrive),
            2 => Just(Step::Run),
            3 => any::<usize>().prop_map(Step::Finish),
            2 => any::<usize>().prop_map(Step::GoAway),
            1 => (0..6_usize).prop_map(|n| Step::SetLimit(Limit::AtMost(n))),
            1 => Just(Step::SetLimit(Limit::Unlimited)),
        ]
    }

    /// The callers of one breaker: futures in their order of arrival, and permits.
    struct Callers {
        breaker: Breaker,
        queue_bound: usize,
        waiting: Vec<Acquire>,
        running: Vec<Permit>,
    }

    impl Callers {
        fn play(&mut self, step: Step) {
            match step {
                Step::Arrive => self.arrive(),
                Step::Run => self.run(),
                Step::Finish(i) if !self.running.is_empty() => {
                    drop(self.running.remove(i % self.running.len()));
                }
                Step::GoAway(i) if !self.waiting.is_empty() => {
                    drop(self.waiting.remove(i % self.waiting.len()));
                }
                Step::SetLimit(limit) => self.breaker.set_limit(limit),
                Step::Finish(_) | Step::GoAway(_) => {}
            }
        }

        fn arrive(&mut self) {
            let mut caller = acquire(&self.breaker);
            let had_room = self.breaker.queued() < self.queue_bound;
            match poll(&mut caller) {
                Poll::Ready(Ok(permit)) => self.running.push(permit),
                Poll::Ready(Err(QueueFull { .. })) => assert!(!had_room),
                Poll::Pending => self.waiting.push(caller),
            }
        }

        /// Slots go to the head of the queue only: whoever is served, all before them were.
        fn run(&mut self) {
            let mut somebody_waits = false;
            for mut caller in std::mem::take(&mut self.waiting) {
                match granted(&mut caller) {
                    Some(permit) => {
                        assert!(!somebody_waits, "overtaken");
                        self.running.push(permit);
                    }
                    None => {
                        somebody_waits = true;
                        self.waiting.push(caller);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn never_above_the_limit_and_never_idle_with_a_waiter(
            steps in proptest::collection::vec(step(), 0..200),
            limit in 0..4_usize,
            queue_bound in 0..8_usize,
        ) {
            let breaker = Breaker::new(Limit::AtMost(limit), queue_bound);
            let mut callers =
                Callers { breaker: breaker.clone(), queue_bound, waiting: Vec::new(), running: Vec::new() };
            for step in steps {
                let before = breaker.in_flight();
                callers.play(step);
                let (now, queued) = (breaker.in_flight(), breaker.queued());
                prop_assert!(queued <= queue_bound);
                prop_assert_eq!(now + queued, callers.running.len() + callers.waiting.len());
                if let Limit::AtMost(limit) = breaker.limit() {
                    prop_assert!(now <= limit.max(before), "{now} run, {limit} may");
                    prop_assert!(queued == 0 || now >= limit, "{queued} wait, but {now} of {limit} run");
                } else {
                    prop_assert_eq!(queued, 0);
                }
            }
            drop(callers);
            prop_assert_eq!((breaker.in_flight(), breaker.queued()), (0, 0));
        }
    }
}
