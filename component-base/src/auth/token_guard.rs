//! Authorizes connections between Rouse's own parts by their service account tokens.
//!
//! ```text
//! Authorization: Bearer ─► TokenReview for our audience ─► allowed account of our namespace
//!                 none: 401             invalid: 401               other: 403
//! ```
//!
//! Used on the stats port. A token of this audience is valid for nothing else in the cluster, and a
//! token for the API server is not accepted here. Checked once per connection: an open connection
//! stays authorized. Without a review the response is 503, and clients retry. The reviews of a
//! guard have a budget of their own, which the addresses of its clients divide: pods that send
//! invalid tokens delay the reviews of our own parts by less than a second, and lock none of them
//! out.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};

use super::review_budget::{ReviewBudget, TOKEN_REVIEWS};
use super::reviews::{ReviewError, Reviewer, User};
use super::token_cache::TokenCache;

/// Authorizes clients by bearer token. Clones share one cache of reviews.
#[derive(Clone, Debug, Default)]
pub struct TokenGuard {
    /// `None` authorizes every client.
    authorizer: Option<Arc<Authorizer>>,
}

#[derive(Debug)]
struct Authorizer {
    reviewer: Arc<dyn Reviewer>,
    namespace: String,
    audience: &'static str,
    budget: ReviewBudget,
    reviews: TokenCache,
}

/// Why a client is rejected.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The request has no bearer token.
    #[error("no bearer token; send a service account token for the audience {0:?}")]
    NoToken(&'static str),
    /// The token is not valid.
    #[error("invalid token: expired, or not for the audience {0:?}")]
    BadToken(&'static str),
    /// The token is valid for another account.
    #[error("user {user:?} is not allowed; allowed: {allowed}")]
    NotAllowed {
        /// The authenticated user.
        user: String,
        /// The accounts that are allowed.
        allowed: String,
    },
    /// The review failed.
    #[error("token review failed: {0}")]
    Review(#[from] ReviewError),
}

// === impl TokenGuard ===

impl TokenGuard {
    /// Authorizes service accounts of `namespace` with a token for `audience`.
    pub fn new(reviewer: Arc<dyn Reviewer>, namespace: &str, audience: &'static str) -> Self {
        let authorizer = Authorizer {
            reviewer,
            namespace: namespace.to_owned(),
            audience,
            budget: ReviewBudget::new(TOKEN_REVIEWS),
            reviews: TokenCache::default(),
        };
        Self { authorizer: Some(Arc::new(authorizer)) }
    }

    /// Authorizes every client: for tests, and for trials on one machine.
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// Accepts clients that run as one of these service accounts. `client` is the address of the
    /// connection.
    ///
    /// # Errors
    /// For every other client, and when the review fails.
    pub async fn authorize(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
        accounts: &[&str],
    ) -> Result<(), AuthError> {
        match &self.authorizer {
            Some(authorizer) => authorizer.authorize(headers, client, accounts).await,
            None => Ok(()),
        }
    }
}

// === impl Authorizer ===

impl Authorizer {
    async fn authorize(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
        accounts: &[&str],
    ) -> Result<(), AuthError> {
        let token = bearer_token(headers).ok_or(AuthError::NoToken(self.audience))?;
        let user = self.user(token, client).await?.ok_or(AuthError::BadToken(self.audience))?;
        let names: Vec<_> = accounts
            .iter()
            .map(|account| format!("system:serviceaccount:{}:{account}", self.namespace))
            .collect();
        if names.contains(&user.name) {
            return Ok(());
        }
        Err(AuthError::NotAllowed { user: user.name, allowed: names.join(" or ") })
    }

    async fn user(&self, token: &str, client: IpAddr) -> Result<Option<User>, ReviewError> {
        if let Some(reviews) = self.reviews.get(token) {
            return Ok(reviews);
        }
        let _place = self.budget.acquire(client).await?;
        let user = self.reviewer.token(token, Some(self.audience)).await?;
        self.reviews.insert(token, user.clone());
        Ok(user)
    }
}

// === impl AuthError ===

impl AuthError {
    /// The status code of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NoToken(_) | Self::BadToken(_) => StatusCode::UNAUTHORIZED,
            Self::NotAllowed { .. } => StatusCode::FORBIDDEN,
            Self::Review(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The token in an `Authorization: Bearer` header.
pub fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_api::{FakeApi, Outage};
    use futures::future::join_all;
    use http::HeaderValue;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::super::reviews::KubernetesReviewer;
    use super::*;

    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

    /// A cluster where the token `user@audience` is valid for that user and audience.
    fn cluster() -> FakeApi {
        let api = FakeApi::default();
        api.respond_to_creations(REVIEWS, |review: Value| {
            let token = review["spec"]["token"].as_str().unwrap_or_default();
            let (user, audience) = token.split_once('@').unwrap_or((token, ""));
            let requested = review["spec"]["audiences"].as_array().cloned().unwrap_or_default();
            let audiences: Vec<_> = requested.into_iter().filter(|wanted| wanted == audience).collect();
            json!({"spec": {"token": ""}, "status": {
                "authenticated": user != "invalid", "audiences": audiences, "user": {"username": user},
            }})
        });
        api
    }

    fn guard(api: &FakeApi) -> TokenGuard {
        TokenGuard::new(Arc::new(KubernetesReviewer::new(api.client())), "rouse-system", "ours")
    }

    async fn status(guard: &TokenGuard, authorization: &str) -> u16 {
        status_of(guard, [10, 0, 0, 1].into(), authorization).await
    }

    async fn status_of(guard: &TokenGuard, client: IpAddr, authorization: &str) -> u16 {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
        }
        guard
            .authorize(&headers, client, &["activator", "zero-scaler"])
            .await
            .map_or_else(|r| r.status().as_u16(), |()| 200)
    }

    #[tokio::test]
    async fn accepts_only_allowed_accounts_with_token_for_audience() {
        let guard = guard(&cluster());
        for (authorization, expected) in [
            ("Bearer system:serviceaccount:rouse-system:activator@ours", 200),
            ("bearer system:serviceaccount:rouse-system:zero-scaler@ours", 200),
            ("", 401),
            ("Basic system:serviceaccount:rouse-system:activator@ours", 401),
            ("Bearer invalid@ours", 401),
            ("Bearer system:serviceaccount:rouse-system:activator@api-server", 401),
            ("Bearer system:serviceaccount:rouse-system:activator", 401),
            ("Bearer system:serviceaccount:rouse-system:default@ours", 403),
            ("Bearer system:serviceaccount:shop:activator@ours", 403),
        ] {
            assert_eq!(status(&guard, authorization).await, expected, "{authorization}");
        }
        assert_eq!(status(&TokenGuard::allow_all(), "").await, 200);
    }

    #[tokio::test(start_paused = true)]
    async fn bounds_concurrent_reviews_of_distinct_tokens() {
        let api = cluster();
        let guard = guard(&api);
        api.set_outage(Some(Outage::Hanging));
        let tokens: Vec<_> = (0..1000).map(|number| format!("Bearer invalid{number}@ours")).collect();
        let statuses = join_all(tokens.iter().map(|token| status(&guard, token))).await;
        assert_eq!(statuses, vec![503; 1000]);
        assert!(api.requests().len() <= 16, "{}", api.requests().len());
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_invalid_tokens_is_slowed_and_delays_a_valid_one_briefly() {
        let api = cluster();
        let guard = guard(&api);
        let began = Instant::now();
        let flood = join_all((0..32).map(|client| {
            let guard = &guard;
            async move {
                for number in 0.. {
                    if began.elapsed() > Duration::from_secs(10) {
                        break;
                    }
                    let token = format!("Bearer invalid{client}-{number}@other");
                    assert_eq!(status(guard, &token).await, 401);
                }
            }
        }));
        let valid = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let sent = Instant::now();
            let activator = "Bearer system:serviceaccount:rouse-system:activator@ours";
            assert_eq!(status(&guard, activator).await, 200);
            assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
        };
        tokio::join!(flood, valid);
        assert!(api.requests().len() <= 700, "{} reviews in ten seconds", api.requests().len());
    }

    #[tokio::test(start_paused = true)]
    async fn valid_token_is_accepted_soon_while_eight_pods_flood_the_guard() {
        let api = cluster();
        let guard = guard(&api);
        let flood = join_all((0..512_u16).map(|number| {
            let (guard, attacker) = (&guard, IpAddr::from([10, 0, 1, (number % 8) as u8]));
            async move {
                for attempt in 0.. {
                    let token = format!("Bearer invalid{number}-{attempt}@ours");
                    assert_ne!(status_of(guard, attacker, &token).await, 200);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }));
        let accepted = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let activator = "Bearer system:serviceaccount:rouse-system:activator@ours";
            let sent = Instant::now();
            (status(&guard, activator).await, sent.elapsed())
        };
        let (accepted, waited) = tokio::select! {
            accepted = accepted => accepted,
            _ = flood => (0, Duration::MAX),
        };
        assert!(accepted == 200 && waited < Duration::from_secs(1), "{accepted} after {waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn caches_review_briefly_and_rejects_without_review() {
        let api = cluster();
        let guard = guard(&api);
        let activator = "Bearer system:serviceaccount:rouse-system:activator@ours";
        assert_eq!(status(&guard, activator).await, 200);
        api.set_outage(Some(Outage::Hanging));
        assert_eq!(status(&guard, activator).await, 200, "the review is cached");
        assert_eq!(api.requests().len(), 1);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(status(&guard, activator).await, 503);
        api.set_outage(Some(Outage::Failing));
        assert_eq!(status(&guard, activator).await, 503);
        api.set_outage(None);
        assert_eq!(status(&guard, activator).await, 200);
    }
}
