//! EventDeduplicator: the last text of each object, so that it becomes one event and not one per
//! reconcile.
//!
//! The status has the same text, but a reconcile may see the status before its own last write.
//! Texts are kept in memory only, so an event may be repeated after a restart.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use autoscaler::Key;
use parking_lot::Mutex;

use crate::clock::now;

/// Upper bound of the objects with a text.
const MAX_OBJECTS: usize = 100_000;

/// The last text of each object, and when it became an event.
#[derive(Debug, Default)]
pub struct EventDeduplicator(Mutex<HashMap<Key, (String, Instant)>>);

// === impl EventDeduplicator ===

impl EventDeduplicator {
    /// Whether the text differs from the last one. An empty text never does, and clears the last
    /// one.
    pub fn is_new(&self, key: &Key, text: &str) -> bool {
        self.is_due(key, text, Duration::MAX)
    }

    /// Like [`Self::is_new`], and true again after `again_after`: Kubernetes keeps events for an
    /// hour.
    pub fn is_due(&self, key: &Key, text: &str, again_after: Duration) -> bool {
        let now = now();
        let mut texts = self.0.lock();
        if text.is_empty() {
            texts.remove(key);
            return false;
        }
        if texts.len() >= MAX_OBJECTS && !texts.contains_key(key) {
            texts.clear();
        }
        let same = texts.get(key).filter(|(last, _)| last == text);
        if same.is_some_and(|(_, at)| now.saturating_duration_since(*at) < again_after) {
            return false;
        }
        texts.insert(key.clone(), (text.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_a_text_as_new_once() {
        let (events, key) = (EventDeduplicator::default(), Key::new("shop", "web"));
        assert!(events.is_new(&key, "a"));
        assert!(!events.is_new(&key, "a"));
        assert!(events.is_new(&key, "b"));
        assert!(!events.is_new(&key, ""));
        assert!(events.is_new(&key, "b"));
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_text_after_interval() {
        let (events, key, minute) =
            (EventDeduplicator::default(), Key::new("shop", "web"), Duration::from_secs(60));
        assert!(events.is_due(&key, "a", minute));
        tokio::time::advance(minute / 2).await;
        assert!(!events.is_due(&key, "a", minute));
        tokio::time::advance(minute / 2).await;
        assert!(events.is_due(&key, "a", minute));
        assert!(!events.is_due(&key, "a", minute));
    }
}
