//! Outbox: what one receiver has still to be sent.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::concurrency_reporter::PokeSent;

/// Letters kept for one receiver.
const BOUND: usize = 256;
/// Older letters are not sent after a reconnection: whoever still waits is in the next periodic report.
const STALE: Duration = Duration::from_secs(2);

/// One message.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) text: Utf8Bytes,
    /// Set if the message is a poke.
    pub(super) poke: Option<PokeSent>,
    pub(super) written: Instant,
}

/// Bounded queue to one receiver.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    letters: VecDeque<Letter>,
    connected: bool,
}

// === impl Outbox ===

impl Outbox {
    /// Queues a letter; how many were dropped for it, itself included.
    pub(super) fn put(&self, letter: Letter) -> u64 {
        let dropped = self.lock().put(letter);
        self.filled.notify_one();
        dropped
    }

    /// The next letter.
    pub(super) async fn next(&self) -> Letter {
        loop {
            if let Some(letter) = self.lock().letters.pop_front() {
                return letter;
            }
            self.filled.notified().await;
        }
    }

    /// The receiver is there; what is stale by now is not for it.
    pub(super) fn connected(&self, now: Instant) {
        let mut state = self.lock();
        state.connected = true;
        state.letters.retain(|letter| now.duration_since(letter.written) < STALE);
    }

    /// Whether the receiver is there.
    pub(super) fn is_connected(&self) -> bool {
        self.lock().connected
    }

    /// The receiver is away.
    pub(super) fn disconnected(&self) {
        self.lock().connected = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

// === impl State ===

impl State {
    fn put(&mut self, letter: Letter) -> u64 {
        let before = self.letters.len();
        let is_poke = letter.poke.is_some();
        if !self.connected && !is_poke {
            self.letters.retain(|other| other.poke.is_some());
        }
        if self.letters.len() >= BOUND {
            match self.letters.iter().position(|other| other.poke.is_none()) {
                Some(oldest_report) => drop(self.letters.remove(oldest_report)),
                None if is_poke => drop(self.letters.pop_front()),
                None => return 1,
            }
        }
        self.letters.push_back(letter);
        (before + 1).saturating_sub(self.letters.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(text: &str, poke: bool) -> Letter {
        Letter { text: text.into(), poke: poke.then(PokeSent::default), written: Instant::now() }
    }

    fn texts(outbox: &Outbox) -> Vec<String> {
        outbox.lock().letters.iter().map(|letter| letter.text.to_string()).collect()
    }

    #[test]
    fn while_away_all_pokes_and_the_newest_report_are_kept() {
        let outbox = Outbox::default();
        assert_eq!(outbox.put(letter("r1", false)), 0);
        assert_eq!(outbox.put(letter("p1", true)), 0);
        assert_eq!(outbox.put(letter("r2", false)), 1);
        assert_eq!(texts(&outbox), ["p1", "r2"]);
    }

    #[test]
    fn a_report_gives_way_to_a_poke_and_never_the_other_way() {
        let outbox = Outbox::default();
        outbox.connected(Instant::now());
        outbox.put(letter("report", false));
        for _ in 1..BOUND {
            outbox.put(letter("poke", true));
        }
        assert_eq!(outbox.put(letter("last", true)), 1);
        assert!(!texts(&outbox).contains(&"report".to_owned()));
        assert_eq!(outbox.put(letter("report", false)), 1);
        assert_eq!(texts(&outbox).len(), BOUND);
        assert_eq!(texts(&outbox).last().map(String::as_str), Some("last"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stale_at_a_reconnection_is_not_sent() {
        let outbox = Outbox::default();
        outbox.put(letter("old", true));
        tokio::time::advance(STALE).await;
        outbox.put(letter("new", true));
        outbox.connected(Instant::now());
        assert_eq!(outbox.next().await.text.as_str(), "new");
    }
}
