//! A queue without neighbours: who gets a place, and when.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;

use super::*;
use crate::workloads::Endpoint;

fn workload(container_concurrency: u32) -> Workload {
    Workload { container_concurrency, ..Workload::default() }
}

/// A queue of three with so many pods that are Ready.
fn queue(container_concurrency: u32, pods: u8) -> Arc<SlotQueue> {
    let slots =
        PodSlots::new(autoscaler::Key::new("shop", "web"), &workload(container_concurrency), Arc::default());
    let queue = SlotQueue::new(slots, 3);
    for pod in 1..=pods {
        add(&queue, pod);
    }
    queue
}

fn add(queue: &Arc<SlotQueue>, pod: u8) {
    let endpoint = Endpoint { uid: pod.to_string(), ip: [10, 0, 0, pod].into(), ready: true };
    queue.change_pods(|pods| pods.put(&pod.to_string(), endpoint, Instant::now()));
}

fn taken(queue: &Arc<SlotQueue>) -> Vec<Slot> {
    std::iter::from_fn(|| queue.try_take()).collect()
}

fn uids(slots: &[Slot]) -> Vec<&str> {
    slots.iter().map(|slot| slot.pod().uid.as_str()).collect()
}

#[test]
fn a_small_limit_fills_one_pod_after_the_other_and_a_large_one_goes_round() {
    assert_eq!(uids(&taken(&queue(2, 2))), ["1", "1", "2", "2"]);
    assert_eq!(uids(&taken(&queue(4, 2))), ["1", "2", "1", "2", "1", "2", "1", "2"]);
}

#[test]
fn without_a_limit_everybody_is_let_in_as_soon_as_there_is_a_pod() {
    let queue = queue(0, 0);
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(queue.wait(Instant::now()))).collect();
    assert!(waiting.iter_mut().all(|waiter| waiter.now_or_never().is_none()));
    add(&queue, 1);
    let slots: Vec<_> = waiting.iter_mut().map(|waiter| waiter.now_or_never().unwrap().unwrap()).collect();
    assert!(slots.iter().all(Slot::waited));
    assert_eq!(slots[0].pod().in_flight(), 3);
    assert!(!queue.try_take().unwrap().waited());
}

#[test]
fn who_waits_is_stranded_until_there_is_a_pod_even_one_that_does_not_answer() {
    let queue = queue(1, 0);
    assert!(!queue.is_stranded());
    let mut waiting = Box::pin(queue.wait(Instant::now()));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert!(queue.is_stranded());
    let endpoint = Endpoint { uid: "1".into(), ip: [10, 0, 0, 1].into(), ready: false };
    queue.change_pods(|pods| pods.put("1", endpoint, Instant::now()));
    assert!(!queue.is_stranded());
    queue.change_pods(|pods| pods.remove("1"));
    assert!(queue.is_stranded());
    drop(waiting);
    assert!(!queue.is_stranded());
}

#[test]
fn places_go_to_who_waits_longest_and_a_newcomer_never_overtakes() {
    let queue = queue(1, 1);
    let slot = queue.try_take();
    let mut first = Box::pin(queue.wait(Instant::now()));
    let mut second = Box::pin(queue.wait(Instant::now()));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    drop(slot);
    assert!(queue.try_take().is_none());
    assert!((&mut second).now_or_never().is_none());
    drop((&mut first).now_or_never().unwrap());
    assert!((&mut second).now_or_never().is_some());
}

#[test]
fn who_comes_back_has_its_turn_by_its_arrival() {
    let queue = queue(1, 1);
    let arrived = Instant::now();
    let slot = queue.try_take();
    let mut later = Box::pin(queue.wait(arrived + std::time::Duration::from_secs(1)));
    let mut back = Box::pin(queue.wait(arrived));
    assert!((&mut later).now_or_never().is_none() && (&mut back).now_or_never().is_none());
    drop(slot);
    assert!((&mut later).now_or_never().is_none());
    assert!((&mut back).now_or_never().is_some());
}

#[test]
fn a_caller_that_leaves_passes_on_what_it_was_given_and_did_not_take() {
    let queue = queue(1, 1);
    let slot = queue.try_take();
    let mut first = Box::pin(queue.wait(Instant::now()));
    let mut second = Box::pin(queue.wait(Instant::now()));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    drop(slot);
    drop(first);
    assert!((&mut second).now_or_never().is_some());
}

#[test]
fn no_more_wait_than_may_and_who_leaves_makes_room() {
    let queue = queue(1, 0);
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(queue.wait(Instant::now()))).collect();
    assert!(waiting.iter_mut().all(|waiter| waiter.now_or_never().is_none()));
    let refused = queue.wait(Instant::now()).now_or_never().unwrap();
    assert_eq!(refused.unwrap_err(), QueueFull { bound: 3 });
    drop(waiting.remove(1));
    assert!(queue.wait(Instant::now()).now_or_never().is_none());
}

#[test]
fn requests_of_a_pod_that_left_do_not_take_the_places_of_others() {
    let queue = queue(1, 2);
    let mut slots = taken(&queue);
    queue.change_pods(|pods| pods.remove("1"));
    drop(slots.remove(0));
    assert!(queue.try_take().is_none(), "its place left with it");
    add(&queue, 3);
    assert_eq!(uids(&taken(&queue)), ["3"]);
}

#[test]
fn a_pod_that_is_set_aside_is_not_taken() {
    let queue = queue(1, 2);
    let slot = queue.try_take().unwrap();
    queue.change_pods(|pods| pods.set_aside(slot.pod()));
    drop(slot);
    assert_eq!(uids(&taken(&queue)), ["2"]);
}

#[test]
fn a_changed_limit_holds_at_once_and_interrupts_nobody() {
    let queue = queue(1, 1);
    let mut slots = taken(&queue);
    queue.set_workload(&workload(3), 3);
    slots.extend(taken(&queue));
    assert_eq!(slots.len(), 3);
    queue.set_workload(&workload(2), 3);
    slots.pop();
    assert!(queue.try_take().is_none());
    slots.pop();
    assert_eq!(taken(&queue).len(), 1);
    queue.set_workload(&workload(0), 3);
    assert!(queue.try_take().is_some());
}

#[test]
fn a_crowd_is_let_in_as_a_whole() {
    let slots = PodSlots::new(autoscaler::Key::new("shop", "web"), &workload(0), Arc::default());
    let queue = SlotQueue::new(slots, 10 * ENTERING);
    let mut crowd: Vec<_> = (0..3 * ENTERING).map(|_| Box::pin(queue.wait(Instant::now()))).collect();
    assert!(crowd.iter_mut().all(|caller| caller.now_or_never().is_none()));
    add(&queue, 1);
    for caller in &mut crowd {
        caller.now_or_never().unwrap().unwrap().run();
    }
}

#[tokio::test]
async fn others_have_their_turn_while_a_crowd_is_let_in() {
    let slots = PodSlots::new(autoscaler::Key::new("shop", "web"), &workload(0), Arc::default());
    let (queue, let_in) = (SlotQueue::new(slots, 10 * ENTERING), Arc::new(AtomicUsize::new(0)));
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..10 * ENTERING {
        let (queue, let_in) = (queue.clone(), let_in.clone());
        crowd.spawn(async move {
            let mut slot = queue.wait(Instant::now()).await.unwrap();
            let_in.fetch_add(1, Ordering::SeqCst);
            slot.run();
            slot
        });
    }
    while queue.lock().waiting.len() < 10 * ENTERING {
        tokio::task::yield_now().await;
    }
    add(&queue, 1);
    let seen = let_in.clone();
    let neighbour = tokio::spawn(async move { seen.load(Ordering::SeqCst) });
    let before = neighbour.await.unwrap();
    assert!(before <= 2 * ENTERING, "{before} were let in before it");
    assert_eq!(crowd.join_all().await.len(), 10 * ENTERING);
}
