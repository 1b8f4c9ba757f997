//! EventQueue: what happens next. The heart of the simulation: time moves from one event to the next, never in between.
//!
//! Events of the same instant happen in the order in which they were scheduled, so a run is the same each time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::clock::Time;

/// A bounded queue of future events.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    scheduled: u64,
    bound: usize,
    overflowed: bool,
}

/// More events were scheduled than the queue holds: the scenario is larger than anything meant to be simulated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {bound} events are waiting to happen; use a smaller load or a longer service time")]
pub struct EventQueueFull {
    /// How many may wait.
    pub bound: usize,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

// === impl EventQueue ===

impl<E> EventQueue<E> {
    /// An empty queue for so many events.
    pub fn new(bound: usize) -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0, bound, overflowed: false }
    }

    /// Lets `event` happen at `at`. One too many is not lost in silence: [`pop`](Self::pop) fails from then on.
    pub fn schedule(&mut self, at: Time, event: E) {
        if self.heap.len() >= self.bound {
            self.overflowed = true;
            return;
        }
        self.scheduled += 1;
        self.heap.push(Entry { at, number: self.scheduled, event });
    }

    /// The next event, if it happens before `end`.
    ///
    /// # Errors
    /// When an event had no room.
    pub fn pop(&mut self, end: Time) -> Result<Option<(Time, E)>, EventQueueFull> {
        if self.overflowed {
            return Err(EventQueueFull { bound: self.bound });
        }
        if self.heap.peek().is_none_or(|next| next.at >= end) {
            return Ok(None);
        }
        Ok(self.heap.pop().map(|entry| (entry.at, entry.event)))
    }
}

// === impl Entry ===

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl<E> Ord for Entry<E> {
    /// The largest comes out of the heap first, so the earliest is the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_earliest_comes_first_and_equals_in_the_order_they_were_scheduled() {
        let mut queue = EventQueue::new(10);
        for (second, name) in [(2, "c"), (1, "a"), (2, "d"), (1, "b"), (9, "after the end")] {
            queue.schedule(Duration::from_secs(second), name);
        }
        let end = Duration::from_secs(9);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(end).unwrap()).map(|(_, name)| name).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }

    #[test]
    fn an_event_without_room_fails_the_run() {
        let mut queue = EventQueue::new(1);
        queue.schedule(Duration::ZERO, 1);
        queue.schedule(Duration::ZERO, 2);
        assert_eq!(queue.pop(Duration::MAX), Err(EventQueueFull { bound: 1 }));
    }
}
