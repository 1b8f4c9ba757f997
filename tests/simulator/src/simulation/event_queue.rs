//! Queue of future events. Virtual time advances from one event to the next.
//!
//! Events of the same instant are handled in the order of their scheduling, so a run is
//! reproducible.

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

/// The queue is full: the scenario generates more events than the simulator supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {bound} events are pending; use a smaller load or a longer service time")]
pub struct EventQueueFull {
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
    /// An empty queue with this bound.
    pub fn new(bound: usize) -> Self {
        Self { heap: BinaryHeap::new(), scheduled: 0, bound, overflowed: false }
    }

    /// Schedules `event` at `at`. If the queue is full, [`pop`](Self::pop) fails from then on.
    pub fn schedule(&mut self, at: Time, event: E) {
        if self.heap.len() >= self.bound {
            self.overflowed = true;
            return;
        }
        self.scheduled += 1;
        self.heap.push(Entry { at, number: self.scheduled, event });
    }

    /// Removes the next event if it is before `end`.
    ///
    /// # Errors
    /// [`EventQueueFull`] if an event could not be scheduled.
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
    /// Reversed, because a `BinaryHeap` returns the largest entry first.
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
    fn pops_by_time_and_then_in_order_of_scheduling() {
        let mut queue = EventQueue::new(10);
        for (second, name) in [(2, "c"), (1, "a"), (2, "d"), (1, "b"), (9, "after the end")] {
            queue.schedule(Duration::from_secs(second), name);
        }
        let end = Duration::from_secs(9);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(end).unwrap()).map(|(_, name)| name).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }

    #[test]
    fn pop_fails_after_an_event_exceeded_the_bound() {
        let mut queue = EventQueue::new(1);
        queue.schedule(Duration::ZERO, 1);
        queue.schedule(Duration::ZERO, 2);
        assert_eq!(queue.pop(Duration::MAX), Err(EventQueueFull { bound: 1 }));
    }
}
