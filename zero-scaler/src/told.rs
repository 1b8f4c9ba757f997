//! Told: what was last said of an object, so that it becomes an event once and not with every look.
//!
//! A status answers the same question, but a reconcile may see the one before its own last write. What is here is forgotten
//! with the process; after a restart something may be said a second time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use autoscaler::Key;

/// Objects that are remembered.
const MOST: usize = 100_000;

/// The last words on each object.
#[derive(Debug, Default)]
pub struct Told(Mutex<HashMap<Key, String>>);

// === impl Told ===

impl Told {
    /// Whether this is news; an empty text is never news, and forgets the last.
    pub fn is_news(&self, key: &Key, text: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if text.is_empty() {
            told.remove(key);
            return false;
        }
        if told.len() >= MOST && !told.contains_key(key) {
            told.clear();
        }
        told.insert(key.clone(), text.to_owned()).as_deref() != Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_news_once() {
        let (told, key) = (Told::default(), Key::new("shop", "web"));
        assert!(told.is_news(&key, "a"));
        assert!(!told.is_news(&key, "a"));
        assert!(told.is_news(&key, "b"));
        assert!(!told.is_news(&key, ""));
        assert!(told.is_news(&key, "b"));
    }
}
