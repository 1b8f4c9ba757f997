//! Servers with one queue in order of arrival: a thread pool in an app, or a pool of connections.

use std::collections::VecDeque;

/// Busy servers, and what waits for one.
#[derive(Debug)]
pub struct ServerQueue<T> {
    busy: usize,
    waiting: VecDeque<T>,
}

// === impl ServerQueue ===

impl<T> Default for ServerQueue<T> {
    fn default() -> Self {
        Self { busy: 0, waiting: VecDeque::new() }
    }
}

impl<T> ServerQueue<T> {
    /// Adds an entry. Returns it if one of the `servers` is free; otherwise it waits.
    pub fn enter(&mut self, entry: T, servers: usize) -> Option<T> {
        self.waiting.push_back(entry);
        self.serve(servers)
    }

    /// Frees a server. Returns the entry that starts, if any.
    pub fn leave(&mut self, servers: usize) -> Option<T> {
        self.busy = self.busy.saturating_sub(1);
        self.serve(servers)
    }

    /// Starts the next entry if a server is free, also after the number of servers has grown.
    pub fn serve(&mut self, servers: usize) -> Option<T> {
        if self.busy >= servers {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.busy += 1;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_the_servers_wait_in_order() {
        let mut queue = ServerQueue::default();
        assert_eq!((1..=4).map(|n| queue.enter(n, 2)).collect::<Vec<_>>(), [Some(1), Some(2), None, None]);
        assert_eq!((queue.leave(2), queue.serve(3), queue.leave(3)), (Some(3), Some(4), None));
    }
}
