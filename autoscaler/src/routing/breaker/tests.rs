//! Behaviour of a breaker: single calls, arbitrary sequences of calls, and many threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

type Acquire = Pin<Box<dyn Future<Output = Result<BreakerPermit, QueueFull>>>>;

fn acquire(breaker: &Breaker) -> Acquire {
    let breaker = breaker.clone();
    Box::pin(async move { breaker.acquire().await })
}

fn poll(acquire: &mut Acquire) -> Poll<Result<BreakerPermit, QueueFull>> {
    acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn granted(acquire: &mut Acquire) -> Option<BreakerPermit> {
    match poll(acquire) {
        Poll::Ready(result) => Some(result.unwrap()),
        Poll::Pending => None,
    }
}

/// Knative breaker_test.go, K1: a limit and a queue of one reject the third request.
#[test]
fn rejects_request_beyond_limit_and_queue_until_one_ends() {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(1), 1);
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

/// Knative rejects some breaker parameters (K2). Here a queue bound of 0 is valid, the types
/// exclude negative limits, and no maximum limit exists.
#[test]
fn queue_bound_of_zero_rejects_at_once() {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(1), 0);
    let _running = breaker.try_acquire().unwrap();
    assert!(matches!(poll(&mut acquire(&breaker)), Poll::Ready(Err(QueueFull { bound: 0 }))));
}

#[test]
fn requests_without_limit_never_wait() {
    assert_eq!(ConcurrencyLimit::of_container_concurrency(0), ConcurrencyLimit::Unlimited);
    assert_eq!(ConcurrencyLimit::of_container_concurrency(7), ConcurrencyLimit::AtMost(7));

    let breaker = Breaker::new(ConcurrencyLimit::Unlimited, 0);
    let running: Vec<_> = (0..1000).map(|_| granted(&mut acquire(&breaker)).unwrap()).collect();
    assert_eq!((breaker.in_flight(), breaker.queued()), (1000, 0));
    drop(running);
    assert_eq!(breaker.in_flight(), 0);
}

#[test]
fn dropped_waiter_leaves_the_queue_at_once() {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(1), 1);
    let _running = breaker.try_acquire().unwrap();
    let mut waiting = acquire(&breaker);
    assert!(granted(&mut waiting).is_none());
    drop(waiting);
    assert_eq!(breaker.queued(), 0);
    assert!(poll(&mut acquire(&breaker)).is_pending());
}

#[test]
fn waiter_that_is_dropped_with_a_slot_passes_it_on() {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(1), 2);
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
fn new_request_does_not_overtake_a_waiter() {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(1), 2);
    let running = breaker.try_acquire().unwrap();
    let mut waiting = acquire(&breaker);
    assert!(granted(&mut waiting).is_none());
    drop(running);
    assert!(breaker.try_acquire().is_none());
    assert!(granted(&mut waiting).is_some());
}

#[tokio::test]
async fn release_wakes_a_waiting_task() {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(1), 100);
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
    /// Polls every waiter, so that waiters with a slot start to run.
    Run,
    Finish(usize),
    Cancel(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Arrive),
        2 => Just(Step::Run),
        3 => any::<usize>().prop_map(Step::Finish),
        2 => any::<usize>().prop_map(Step::Cancel),
    ]
}

/// Requests of one breaker: waiting futures in order of arrival, and permits.
struct Callers {
    breaker: Breaker,
    queue_bound: usize,
    waiting: Vec<Acquire>,
    running: Vec<BreakerPermit>,
}

impl Callers {
    fn play(&mut self, step: Step) {
        match step {
            Step::Arrive => self.arrive(),
            Step::Run => self.run(),
            Step::Finish(i) if !self.running.is_empty() => {
                drop(self.running.remove(i % self.running.len()));
            }
            Step::Cancel(i) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(i % self.waiting.len()));
            }
            Step::Finish(_) | Step::Cancel(_) => {}
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

    /// Slots go only to the head of the queue: no request runs before an older one.
    fn run(&mut self) {
        let mut older_waits = false;
        for mut caller in std::mem::take(&mut self.waiting) {
            match granted(&mut caller) {
                Some(permit) => {
                    assert!(!older_waits, "overtaken");
                    self.running.push(permit);
                }
                None => {
                    older_waits = true;
                    self.waiting.push(caller);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn in_flight_is_at_most_the_limit_and_no_slot_is_free_while_one_waits(
        steps in proptest::collection::vec(step(), 0..200),
        limit in 0..4_usize,
        queue_bound in 0..8_usize,
    ) {
        let breaker = Breaker::new(ConcurrencyLimit::AtMost(limit), queue_bound);
        let mut callers =
            Callers { breaker: breaker.clone(), queue_bound, waiting: Vec::new(), running: Vec::new() };
        for step in steps {
            callers.play(step);
            let (now, queued) = (breaker.in_flight(), breaker.queued());
            prop_assert!(queued <= queue_bound);
            prop_assert_eq!(now + queued, callers.running.len() + callers.waiting.len());
            prop_assert!(now <= limit, "{now} run above the limit of {limit}");
            prop_assert!(queued == 0 || now == limit, "{queued} wait, but {now} of {limit} run");
        }
        drop(callers);
        prop_assert_eq!((breaker.in_flight(), breaker.queued()), (0, 0));
    }
}

const TASKS: usize = 64;
const ROUNDS: usize = 300;
const LIMIT: usize = 3;

/// Acquires slots repeatedly. Every fifth time, cancels while waiting or just after the grant.
async fn acquire_repeatedly(breaker: Breaker, running: Arc<AtomicUsize>, task: usize) -> usize {
    let mut served = 0;
    for round in 0..ROUNDS {
        if (task + round).is_multiple_of(5) {
            let mut cancelled = Box::pin(breaker.acquire());
            let _ = std::future::poll_fn(|cx| Poll::Ready(cancelled.as_mut().poll(cx).is_ready())).await;
            tokio::task::yield_now().await;
            continue;
        }
        let permit = breaker.acquire().await.unwrap();
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= LIMIT, "{now} run at a time");
        if round.is_multiple_of(3) {
            tokio::task::yield_now().await;
        }
        running.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
        served += 1;
    }
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_slot_is_lost_among_threads() {
    let breaker = Breaker::new(ConcurrencyLimit::AtMost(LIMIT), 2 * TASKS);
    let running = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..TASKS)
        .map(|task| tokio::spawn(acquire_repeatedly(breaker.clone(), running.clone(), task)))
        .collect();
    let mut served = 0;
    for caller in callers {
        let caller = tokio::time::timeout(std::time::Duration::from_secs(60), caller).await;
        served += caller.expect("no request waits for a lost slot").unwrap();
    }
    assert_eq!(served, TASKS * ROUNDS * 4 / 5);
    assert_eq!((breaker.in_flight(), breaker.queued()), (0, 0));
    let all: Vec<_> = (0..LIMIT).filter_map(|_| breaker.try_acquire()).collect();
    assert!(all.len() == LIMIT && breaker.try_acquire().is_none());
}
