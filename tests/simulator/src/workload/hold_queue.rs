//! HoldQueue: requests that wait for a place, first come, first served. Activators have one, and so has every sidecar.

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
    /// An empty queue for so many.
    pub fn new(bound: usize) -> Self {
        Self { waiting: VecDeque::new(), bound }
    }

    /// Lets one more wait; false if the queue is full.
    #[must_use]
    pub fn push(&mut self, request: Request) -> bool {
        let room = self.waiting.len() < self.bound;
        if room {
            self.waiting.push_back(request);
        }
        room
    }

    /// Who waits longest.
    pub fn front(&self) -> Option<&Request> {
        self.waiting.front()
    }

    /// Takes out who waits longest.
    pub fn pop(&mut self) -> Option<Request> {
        self.waiting.pop_front()
    }

    /// Takes out a request whose client gave up, if it still waits here.
    pub fn remove(&mut self, id: u64) -> Option<Request> {
        let place = self.waiting.iter().position(|request| request.id == id)?;
        self.waiting.remove(place)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
