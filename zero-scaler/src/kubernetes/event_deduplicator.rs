//! Told: what was last said of an object, so that it becomes an event once and not with every look.
//!
//! A status answers the same question, but a reconcile may see the one before its own last write. What is here is forgotten
//! with the process; after a restart something may be said a second time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use autoscaler::Key;
use parking_lot::Mutex;

use crate::clock::now;

/// Objects that are remembered.
const MOST: usize = 100_000;

/// The last words on each object.
#[derive(Debug, Default)]
pub struct EventDeduplicator(Mutex<HashMap<Key, (String, Instant)>>);

// === impl Told ===

impl EventDeduplicator {
    /// Whether this is news; an empty text is never news, and forgets the last.
    pub fn is_news(&self, key: &Key, text: &str) -> bool {
        self.is_due(key, text, Duration::MAX)
    }

    /// Whether this is news, or was last told so long ago that it has to be told again: events are kept for an hour.
    pub fn is_due(&self, key: &Key, text: &str, again_after: Duration) -> bool {
        let now = now();
        let mut told = self.0.lock();
        if text.is_empty() {
            told.remove(key);
            return false;
        }
        if told.len() >= MOST && !told.contains_key(key) {
            told.clear();
        }
        let known = told.get(key).filter(|(known, _)| known == text);
        if known.is_some_and(|(_, at)| now.saturating_duration_since(*at) < again_after) {
            return false;
        }
        told.insert(key.clone(), (text.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_news_once() {
        let (told, key) = (EventDeduplicator::default(), Key::new("shop", "web"));
        assert!(told.is_news(&key, "a"));
        assert!(!told.is_news(&key, "a"));
        assert!(told.is_news(&key, "b"));
        assert!(!told.is_news(&key, ""));
        assert!(told.is_news(&key, "b"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_wrong_is_told_again() {
        let (told, key, minute) =
            (EventDeduplicator::default(), Key::new("shop", "web"), Duration::from_secs(60));
        assert!(told.is_due(&key, "a", minute));
        tokio::time::advance(minute / 2).await;
        assert!(!told.is_due(&key, "a", minute));
        tokio::time::advance(minute / 2).await;
        assert!(told.is_due(&key, "a", minute));
        assert!(!told.is_due(&key, "a", minute));
    }
}
