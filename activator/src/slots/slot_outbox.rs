//! SlotOutbox: the messages that wait to be sent to one activator.

use std::net::IpAddr;

use autoscaler::routing::slot_lending::WorkloadSlotMessage;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Messages that may wait: some megabytes, and more than a second of traffic.
const BOUND: usize = 16_384;

/// Bounded queue to one activator. No message may be dropped: an overflow ends the connection.
#[derive(Debug, Default)]
pub(super) struct SlotOutbox {
    state: Mutex<OutboxState>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct OutboxState {
    messages: Vec<WorkloadSlotMessage<IpAddr>>,
    closed: bool,
}

/// The queue is closed, by an overflow or with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

// === impl SlotOutbox ===

impl SlotOutbox {
    /// Appends a message.
    pub(super) fn put(&self, message: WorkloadSlotMessage<IpAddr>) {
        let mut state = self.lock();
        if state.messages.len() >= BOUND {
            state.close();
        } else if !state.closed {
            state.messages.push(message);
        }
        self.filled.notify_one();
    }

    /// All messages since the last call, at least one.
    pub(super) async fn next(&self) -> Result<Vec<WorkloadSlotMessage<IpAddr>>, Overflow> {
        loop {
            {
                let mut state = self.lock();
                if state.closed {
                    return Err(Overflow);
                }
                if !state.messages.is_empty() {
                    return Ok(std::mem::take(&mut state.messages));
                }
            }
            self.filled.notified().await;
        }
    }

    /// Drops all messages, now and from now on.
    pub(super) fn close(&self) {
        self.lock().close();
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock()
    }
}

// === impl OutboxState ===

impl OutboxState {
    fn close(&mut self) {
        self.closed = true;
        self.messages = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::Key;
    use autoscaler::routing::slot_lending::SlotMessage;

    use super::*;

    fn message(requests: u32) -> WorkloadSlotMessage<IpAddr> {
        WorkloadSlotMessage {
            workload: Key::new("shop", "web"),
            message: SlotMessage::Want { requests, oldest_millis: 0 },
        }
    }

    #[tokio::test]
    async fn returns_messages_together_and_in_order() {
        let outbox = SlotOutbox::default();
        outbox.put(message(1));
        outbox.put(message(2));
        assert_eq!(outbox.next().await, Ok(vec![message(1), message(2)]));
    }

    #[tokio::test]
    async fn overflow_closes_outbox_instead_of_dropping_a_message() {
        let outbox = SlotOutbox::default();
        for requests in 0..=BOUND as u32 {
            outbox.put(message(requests));
        }
        assert_eq!(outbox.next().await, Err(Overflow));
        outbox.put(message(0));
        assert_eq!(outbox.next().await, Err(Overflow));
    }
}
