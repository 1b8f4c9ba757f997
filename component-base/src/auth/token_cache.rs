//! Caches results of token reviews.
//!
//! Invalid tokens have a cache of their own. Any client can send any number of them, and must not
//! displace the valid ones.

use super::review_cache::ReviewCache;
use super::reviews::User;

/// Users by their tokens, and invalid tokens.
#[derive(Debug, Default)]
pub struct TokenCache {
    valid: ReviewCache<User>,
    invalid: ReviewCache<()>,
}

// === impl TokenCache ===

impl TokenCache {
    /// The result of a recent review: the user, or `None` within if the token is invalid.
    pub fn get(&self, token: &str) -> Option<Option<User>> {
        self.valid.get(token).map(Some).or_else(|| self.invalid.get(token).map(|()| None))
    }

    /// Caches a result.
    pub fn insert(&self, token: &str, user: Option<User>) {
        match user {
            Some(user) => self.valid.insert(token.to_owned(), user),
            None => self.invalid.insert(token.to_owned(), ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn invalid_tokens_do_not_displace_valid_ones() {
        let cache = TokenCache::default();
        let user = User { name: "activator".to_owned(), ..User::default() };
        cache.insert("valid", Some(user.clone()));
        for number in 0..10_000 {
            cache.insert(&number.to_string(), None);
        }
        assert_eq!(cache.get("valid"), Some(Some(user)));
        assert_eq!(cache.get("9999"), Some(None));
        assert_eq!(cache.get("other"), None);
    }
}
