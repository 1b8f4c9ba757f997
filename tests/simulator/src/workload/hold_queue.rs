//! Bounded FIFO queue of held requests. Each activator and each queue-proxy has one.

use std::collections::VecDeque;

use crate::workload::request::Request;

/// A bounded queue of requests.
#[derive(Debug)]
pub struct HoldQueue {
    waiting: VecDeque<Request>,
    bound: usize,
}

// === impl HoldQueue ===

impl HoldQueue {
    /// An empty queue with this bound.
    pub fn new(bound: usize) -> Self {
        Self { waiting: VecDeque::new(), bound }
    }

    /// Appends a request; false if the queue is full.
    #[must_use]
    pub fn push(&mut self, request: Request) -> bool {
        let room = self.waiting.len() < self.bound;
        if room {
            self.waiting.push_back(request);
        }
        room
    }

    /// The oldest request.
    pub fn front(&self) -> Option<&Request> {
        self.waiting.front()
    }

    /// Removes the oldest request.
    pub fn pop(&mut self) -> Option<Request> {
        self.waiting.pop_front()
    }

    /// Removes the request of this number, after its client timeout.
    pub fn remove(&mut self, id: u64) -> Option<Request> {
        let place = self.waiting.iter().position(|request| request.id == id)?;
        self.waiting.remove(place)
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
