//! Caches results of reviews for a few seconds. Bounded in number and size, because clients choose
//! the keys.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a result is used, positive and negative alike.
const TTL: Duration = Duration::from_secs(10);
/// Largest number of entries.
const CAPACITY: usize = 4096;
/// Longest key that is cached, in bytes: a client may fill 64 KiB of headers with names and groups.
const MAX_KEY_BYTES: usize = 8192;

/// Results by the text of the request.
#[derive(Debug)]
pub struct ReviewCache<V> {
    results: Mutex<HashMap<String, (Instant, V)>>,
}

// === impl ReviewCache ===

impl<V> Default for ReviewCache<V> {
    fn default() -> Self {
        Self { results: Mutex::default() }
    }
}

impl<V: Clone> ReviewCache<V> {
    /// The result for `key`, if it is recent.
    pub fn get(&self, key: &str) -> Option<V> {
        let results = self.results.lock();
        results.get(key).filter(|(at, _)| at.elapsed() < TTL).map(|(_, result)| result.clone())
    }

    pub fn insert(&self, key: String, result: V) {
        if key.len() > MAX_KEY_BYTES {
            return;
        }
        let mut results = self.results.lock();
        if results.len() >= CAPACITY {
            results.retain(|_, (at, _)| at.elapsed() < TTL);
        }
        if results.len() >= CAPACITY {
            // A client sends ever new names. Clearing the cache costs one review for each of the
            // others.
            results.clear();
        }
        results.insert(key, (Instant::now(), result));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn expires_entries_and_stays_within_capacity() {
        let cache = ReviewCache::default();
        cache.insert("a".to_owned(), 1);
        assert_eq!(cache.get("a"), Some(1));
        tokio::time::advance(TTL).await;
        assert_eq!(cache.get("a"), None);
        for i in 0..3 * CAPACITY {
            cache.insert(i.to_string(), i);
            assert!(cache.results.lock().len() <= CAPACITY);
        }
        cache.insert("a".repeat(MAX_KEY_BYTES + 1), 1);
        assert_eq!(cache.get(&"a".repeat(MAX_KEY_BYTES + 1)), None);
    }
}
