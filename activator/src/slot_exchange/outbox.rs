//! Outbox: what one activator has still to be told.

use std::net::IpAddr;

use autoscaler::slot_lending::Word;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Words that may wait for one activator. Some megabytes, and more than a second of them.
const BOUND: usize = 16_384;

/// Bounded queue to one activator. Nothing in it may be left out: when it overflows, the connection is over.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    words: Vec<Word<IpAddr>>,
    closed: bool,
}

/// More was to be said than the connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

// === impl Outbox ===

impl Outbox {
    /// Puts a word at the end.
    pub(super) fn put(&self, word: Word<IpAddr>) {
        let mut state = self.lock();
        if state.words.len() >= BOUND {
            state.close();
        } else if !state.closed {
            state.words.push(word);
        }
        self.filled.notify_one();
    }

    /// What came since the last call, at least one word.
    pub(super) async fn next(&self) -> Result<Vec<Word<IpAddr>>, Overflow> {
        loop {
            {
                let mut state = self.lock();
                if state.closed {
                    return Err(Overflow);
                }
                if !state.words.is_empty() {
                    return Ok(std::mem::take(&mut state.words));
                }
            }
            self.filled.notified().await;
        }
    }

    /// Takes no more: nobody reads it.
    pub(super) fn close(&self) {
        self.lock().close();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

// === impl State ===

impl State {
    fn close(&mut self) {
        self.closed = true;
        self.words = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::Key;
    use autoscaler::slot_lending::Message;

    use super::*;

    fn word(requests: u32) -> Word<IpAddr> {
        Word { workload: Key::new("shop", "web"), message: Message::Want { requests, oldest_millis: 0 } }
    }

    #[tokio::test]
    async fn words_come_out_together_and_in_order() {
        let outbox = Outbox::default();
        outbox.put(word(1));
        outbox.put(word(2));
        assert_eq!(outbox.next().await, Ok(vec![word(1), word(2)]));
    }

    #[tokio::test]
    async fn an_overflow_ends_everything_rather_than_one_word() {
        let outbox = Outbox::default();
        for requests in 0..=BOUND as u32 {
            outbox.put(word(requests));
        }
        assert_eq!(outbox.next().await, Err(Overflow));
        outbox.put(word(0));
        assert_eq!(outbox.next().await, Err(Overflow));
    }
}
