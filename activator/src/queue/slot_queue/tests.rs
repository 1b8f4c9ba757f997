//! A queue without other activators: which request is granted a slot, and when.

use std::sync::atomic::{AtomicUsize, Ordering};

use autoscaler::routing::proximity::Proximity;
use futures::FutureExt;

use super::*;
use crate::workloads::containers::QueueProxy;
use crate::workloads::readiness::PodProbe;
use crate::workloads::{PodEndpoint, PodRoute};

fn workload(container_concurrency: u32) -> Workload {
    Workload { container_concurrency, ..Workload::default() }
}

/// A queue of three requests, with so many Ready pods.
fn queue(container_concurrency: u32, pods: u8) -> Arc<SlotQueue> {
    let slots =
        PodSlots::new(autoscaler::Key::new("shop", "web"), &workload(container_concurrency), Arc::default());
    let queue = SlotQueue::new(slots, 3);
    for pod in 1..=pods {
        add(&queue, pod);
    }
    queue
}

fn endpoint(pod: u8, ready: bool) -> PodEndpoint {
    let (uid, ip, route) =
        (pod.to_string(), [10, 0, 0, pod].into(), PodRoute::QueueProxy(Default::default()));
    let (proximity, probe) = (Proximity::default(), Some(PodProbe::QueueProxy));
    PodEndpoint { uid, ip, proximity, ready, draining: false, route, probe }
}

fn add(queue: &Arc<SlotQueue>, pod: u8) {
    let endpoint = endpoint(pod, true);
    queue.change_pods(|pods| pods.put(&pod.to_string(), endpoint, Instant::now()));
}

/// A Ready pod with this limit of its queue-proxy; 0 means none.
fn add_limited(queue: &Arc<SlotQueue>, pod: u8, limit: u32) {
    let queue_proxy = QueueProxy { limit: std::num::NonZeroU32::new(limit), ..QueueProxy::default() };
    let endpoint = PodEndpoint { route: PodRoute::QueueProxy(queue_proxy), ..endpoint(pod, true) };
    queue.change_pods(|pods| pods.put(&pod.to_string(), endpoint, Instant::now()));
}

fn acquire_all(queue: &Arc<SlotQueue>) -> Vec<SlotPermit> {
    std::iter::from_fn(|| queue.try_acquire()).collect()
}

fn uids(slots: &[SlotPermit]) -> Vec<&str> {
    slots.iter().map(|slot| slot.pod().uid.as_str()).collect()
}

#[test]
fn fills_pods_one_by_one_with_small_limit_and_round_robin_with_large() {
    assert_eq!(uids(&acquire_all(&queue(2, 2))), ["1", "1", "2", "2"]);
    assert_eq!(uids(&acquire_all(&queue(4, 2))), ["1", "2", "1", "2", "1", "2", "1", "2"]);
}

#[test]
fn grants_all_requests_once_a_pod_exists_without_limit() {
    let queue = queue(0, 0);
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(queue.acquire(Instant::now()))).collect();
    assert!(waiting.iter_mut().all(|request| request.now_or_never().is_none()));
    add(&queue, 1);
    let slots: Vec<_> = waiting.iter_mut().map(|request| request.now_or_never().unwrap().unwrap()).collect();
    assert!(slots.iter().all(SlotPermit::waited));
    assert_eq!(slots[0].pod().in_flight(), 3);
    assert!(!queue.try_acquire().unwrap().waited());
}

#[test]
fn is_stranded_until_workload_has_any_pod() {
    let queue = queue(1, 0);
    assert!(!queue.is_stranded());
    let mut waiting = Box::pin(queue.acquire(Instant::now()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(queue.is_stranded());
    let endpoint = endpoint(1, false);
    queue.change_pods(|pods| pods.put("1", endpoint, Instant::now()));
    assert!(!queue.is_stranded());
    queue.change_pods(|pods| pods.remove("1"));
    assert!(queue.is_stranded());
    drop(waiting);
    assert!(!queue.is_stranded());
}

#[test]
fn grants_slots_in_order_of_arrival() {
    let queue = queue(1, 1);
    let slot = queue.try_acquire();
    let mut first = Box::pin(queue.acquire(Instant::now()));
    let mut second = Box::pin(queue.acquire(Instant::now()));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    drop(slot);
    assert!(queue.try_acquire().is_none());
    assert!((&mut second).now_or_never().is_none());
    drop((&mut first).now_or_never().unwrap());
    assert!((&mut second).now_or_never().is_some());
}

#[test]
fn orders_request_that_is_queued_again_by_its_arrival() {
    let queue = queue(1, 1);
    let arrived = Instant::now();
    let slot = queue.try_acquire();
    let mut later = Box::pin(queue.acquire(arrived + std::time::Duration::from_secs(1)));
    let mut requeued = Box::pin(queue.acquire(arrived));
    assert!((&mut later).now_or_never().is_none() && (&mut requeued).now_or_never().is_none());
    drop(slot);
    assert!((&mut later).now_or_never().is_none());
    assert!((&mut requeued).now_or_never().is_some());
}

#[test]
fn cancelled_request_passes_on_its_granted_slot() {
    let queue = queue(1, 1);
    let slot = queue.try_acquire();
    let mut first = Box::pin(queue.acquire(Instant::now()));
    let mut second = Box::pin(queue.acquire(Instant::now()));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    drop(slot);
    drop(first);
    assert!((&mut second).now_or_never().is_some());
}

#[test]
fn rejects_requests_beyond_bound_until_one_leaves() {
    let queue = queue(1, 0);
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(queue.acquire(Instant::now()))).collect();
    assert!(waiting.iter_mut().all(|request| request.now_or_never().is_none()));
    let refused = queue.acquire(Instant::now()).now_or_never().unwrap();
    assert_eq!(refused.unwrap_err(), QueueFull { bound: 3 });
    drop(waiting.remove(1));
    assert!(queue.acquire(Instant::now()).now_or_never().is_none());
}

#[test]
fn slots_of_removed_pod_are_removed_with_it() {
    let queue = queue(1, 2);
    let mut slots = acquire_all(&queue);
    queue.change_pods(|pods| pods.remove("1"));
    drop(slots.remove(0));
    assert!(queue.try_acquire().is_none(), "its slot was removed with it");
    add(&queue, 3);
    assert_eq!(uids(&acquire_all(&queue)), ["3"]);
}

#[test]
fn does_not_use_ejected_pod() {
    let queue = queue(1, 2);
    let slot = queue.try_acquire().unwrap();
    queue.change_pods(|pods| pods.eject(slot.pod()));
    drop(slot);
    assert_eq!(uids(&acquire_all(&queue)), ["2"]);
}

#[test]
fn pod_gets_requests_up_to_its_own_limit_whatever_the_workload_has() {
    for of_workload in [0, 1, 9] {
        let queue = queue(of_workload, 0);
        add_limited(&queue, 1, 2);
        add_limited(&queue, 2, 4);
        let slots = acquire_all(&queue);
        let on = |uid| uids(&slots).into_iter().filter(|pod| *pod == uid).count();
        assert_eq!((on("1"), on("2")), (2, 4), "{of_workload}");
    }
}

/// A rollout from 2 to 4, back from zero, and one that removes the limit.
#[test]
fn rollout_that_changes_the_limit_keeps_to_that_of_each_pod() {
    let queue = queue(0, 0);
    add_limited(&queue, 1, 2);
    let mut slots = acquire_all(&queue);
    assert_eq!(slots.len(), 2);
    add_limited(&queue, 2, 4);
    slots.extend(acquire_all(&queue));
    assert_eq!(uids(&slots), ["1", "1", "2", "2", "2", "2"]);
    queue.change_pods(|pods| pods.remove("1"));
    slots.drain(..2);
    assert!(queue.try_acquire().is_none(), "its slots have gone with it");
    queue.change_pods(|pods| pods.remove("2"));
    slots.clear();
    assert!(queue.try_acquire().is_none(), "at zero");
    add_limited(&queue, 3, 4);
    slots = acquire_all(&queue);
    assert_eq!(slots.len(), 4);
    add_limited(&queue, 4, 0);
    slots.extend(std::iter::from_fn(|| queue.try_acquire()).take(100));
    assert_eq!(slots.iter().filter(|slot| slot.pod().uid == "4").count(), 100);
    queue.change_pods(|pods| pods.remove("3"));
    slots.clear();
    assert!(queue.try_acquire().is_some_and(|slot| slot.used.is_none()), "without slots");
}

/// Slots that were taken before the first limit was seen do not count.
#[test]
fn pod_with_a_limit_beside_pods_without_one_is_never_full_beyond_it() {
    let queue = queue(0, 1);
    let before: Vec<_> = std::iter::from_fn(|| queue.try_acquire()).take(50).collect();
    add_limited(&queue, 2, 3);
    let slots: Vec<_> = std::iter::from_fn(|| queue.try_acquire()).take(50).collect();
    assert_eq!(slots.iter().filter(|slot| slot.pod().uid == "2").count(), 3);
    drop(before);
    assert!(queue.try_acquire().is_some_and(|slot| slot.pod().uid == "1"));
}

#[test]
fn changed_limit_applies_at_once_and_ends_no_request() {
    let queue = queue(1, 1);
    let mut slots = acquire_all(&queue);
    queue.set_workload(&workload(3), 3);
    slots.extend(acquire_all(&queue));
    assert_eq!(slots.len(), 3);
    queue.set_workload(&workload(2), 3);
    slots.pop();
    assert!(queue.try_acquire().is_none());
    slots.pop();
    assert_eq!(acquire_all(&queue).len(), 1);
    queue.set_workload(&workload(0), 3);
    assert!(queue.try_acquire().is_some());
}

#[test]
fn grants_whole_burst() {
    let slots = PodSlots::new(autoscaler::Key::new("shop", "web"), &workload(0), Arc::default());
    let queue = SlotQueue::new(slots, 10 * MAX_GRANTED);
    let mut burst: Vec<_> = (0..3 * MAX_GRANTED).map(|_| Box::pin(queue.acquire(Instant::now()))).collect();
    assert!(burst.iter_mut().all(|request| request.now_or_never().is_none()));
    add(&queue, 1);
    for request in &mut burst {
        request.now_or_never().unwrap().unwrap().mark_running();
    }
}

#[tokio::test]
async fn other_tasks_run_while_a_burst_is_released() {
    let slots = PodSlots::new(autoscaler::Key::new("shop", "web"), &workload(0), Arc::default());
    let (queue, granted) = (SlotQueue::new(slots, 10 * MAX_GRANTED), Arc::new(AtomicUsize::new(0)));
    let mut burst = tokio::task::JoinSet::new();
    for _ in 0..10 * MAX_GRANTED {
        let (queue, granted) = (queue.clone(), granted.clone());
        burst.spawn(async move {
            let mut slot = queue.acquire(Instant::now()).await.unwrap();
            granted.fetch_add(1, Ordering::SeqCst);
            slot.mark_running();
            slot
        });
    }
    while queue.lock().waiting.len() < 10 * MAX_GRANTED {
        tokio::task::yield_now().await;
    }
    add(&queue, 1);
    let seen = granted.clone();
    let other_task = tokio::spawn(async move { seen.load(Ordering::SeqCst) });
    let before = other_task.await.unwrap();
    assert!(before <= 2 * MAX_GRANTED, "{before} were granted before it");
    assert_eq!(burst.join_all().await.len(), 10 * MAX_GRANTED);
}
