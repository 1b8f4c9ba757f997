//! ReviewCache: answers of the cluster, believed for a few seconds. Bounded: who asks chooses the keys.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an answer is believed, yes and no alike.
const TTL: Duration = Duration::from_secs(10);
/// Answers kept.
const CAPACITY: usize = 4096;
/// Longest question whose answer is kept, in bytes: who asks may fill 64 KiB of headers with names and groups.
const LONGEST: usize = 8192;

/// Answers by question.
#[derive(Debug)]
pub struct ReviewCache<V> {
    answers: Mutex<HashMap<String, (Instant, V)>>,
}

// === impl ReviewCache ===

impl<V> Default for ReviewCache<V> {
    fn default() -> Self {
        Self { answers: Mutex::default() }
    }
}

impl<V: Clone> ReviewCache<V> {
    /// The answer to a question, if there is a fresh one.
    pub fn get(&self, question: &str) -> Option<V> {
        let answers = self.answers.lock();
        answers.get(question).filter(|(at, _)| at.elapsed() < TTL).map(|(_, answer)| answer.clone())
    }

    /// Keeps an answer.
    pub fn insert(&self, question: String, answer: V) {
        if question.len() > LONGEST {
            return;
        }
        let mut answers = self.answers.lock();
        if answers.len() >= CAPACITY {
            answers.retain(|_, (at, _)| at.elapsed() < TTL);
        }
        if answers.len() >= CAPACITY {
            // Somebody asks with ever new names. Starting over costs a review for each of the others.
            answers.clear();
        }
        answers.insert(question, (Instant::now(), answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_grow_old_and_never_too_many() {
        let cache = ReviewCache::default();
        cache.insert("a".to_owned(), 1);
        assert_eq!(cache.get("a"), Some(1));
        tokio::time::advance(TTL).await;
        assert_eq!(cache.get("a"), None);
        for i in 0..3 * CAPACITY {
            cache.insert(i.to_string(), i);
            assert!(cache.answers.lock().len() <= CAPACITY);
        }
        cache.insert("a".repeat(LONGEST + 1), 1);
        assert_eq!(cache.get(&"a".repeat(LONGEST + 1)), None);
    }
}
