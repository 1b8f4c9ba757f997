//! TokenGuard: lets in our own parts, known by the token that their pod was given, and nobody else.
//!
//! ```text
//! Authorization: Bearer ─► TokenReview for our audience ─► a service account of the installation ─► one that may ─► in
//!                 none: 401             not known: 401                       another: 403
//! ```
//!
//! Used where processes speak to each other on the stats port. A token of our audience is good for nothing else in the
//! cluster, and a token for the API server is not taken here. Asked once for each connection: who is connected stays so.
//! What cannot be asked is refused (503), and callers come back.

use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};

use super::review_cache::ReviewCache;
use super::reviews::{ReviewError, Reviewer, User};

/// Who may come in. Clones share what was asked.
#[derive(Clone, Debug, Default)]
pub struct TokenGuard {
    /// `None` lets everybody in.
    door: Option<Arc<Door>>,
}

#[derive(Debug)]
struct Door {
    reviewer: Arc<dyn Reviewer>,
    namespace: String,
    audience: &'static str,
    known: ReviewCache<Option<User>>,
}

/// Why somebody stays out.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// They did not say who they are.
    #[error("a service account token for the audience {0:?} is needed, as Authorization: Bearer")]
    NoToken(&'static str),
    /// The cluster does not know the token.
    #[error("the token is not accepted: it has ended, or is not for the audience {0:?}")]
    BadToken(&'static str),
    /// They are somebody, but not one of these.
    #[error("{user:?} may not do this; {allowed} may")]
    NotAllowed {
        /// Who asked.
        user: String,
        /// Who may.
        allowed: String,
    },
    /// Nobody could be asked.
    #[error("the cluster could not be asked whose token this is: {0}")]
    Review(#[from] ReviewError),
}

// === impl TokenGuard ===

impl TokenGuard {
    /// Lets in service accounts of `namespace` with a token for `audience`.
    pub fn new(reviewer: Arc<dyn Reviewer>, namespace: &str, audience: &'static str) -> Self {
        let door =
            Door { reviewer, namespace: namespace.to_owned(), audience, known: ReviewCache::default() };
        Self { door: Some(Arc::new(door)) }
    }

    /// Lets everybody in: for tests, and for trials on one machine.
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// Lets in whoever runs as one of these service accounts.
    ///
    /// # Errors
    /// On everybody else, and if nobody could be asked.
    pub async fn authorize(&self, headers: &HeaderMap, accounts: &[&str]) -> Result<(), AuthError> {
        match &self.door {
            Some(door) => door.authorize(headers, accounts).await,
            None => Ok(()),
        }
    }
}

// === impl Door ===

impl Door {
    async fn authorize(&self, headers: &HeaderMap, accounts: &[&str]) -> Result<(), AuthError> {
        let token = bearer_token(headers).ok_or(AuthError::NoToken(self.audience))?;
        let user = self.user(token).await?.ok_or(AuthError::BadToken(self.audience))?;
        let names: Vec<_> = accounts
            .iter()
            .map(|account| format!("system:serviceaccount:{}:{account}", self.namespace))
            .collect();
        if names.contains(&user.name) {
            return Ok(());
        }
        Err(AuthError::NotAllowed { user: user.name, allowed: names.join(" or ") })
    }

    async fn user(&self, token: &str) -> Result<Option<User>, ReviewError> {
        if let Some(known) = self.known.get(token) {
            return Ok(known);
        }
        let user = self.reviewer.token(token, Some(self.audience)).await?;
        self.known.insert(token.to_owned(), user.clone());
        Ok(user)
    }
}

// === impl AuthError ===

impl AuthError {
    /// The status code to refuse with.
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
    use fake_api::{FakeApi, Outage};
    use http::HeaderValue;
    use serde_json::{Value, json};

    use super::super::reviews::KubernetesReviewer;
    use super::*;

    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

    /// A cluster in which a token is the name of its user, and good for the audience after the `@`.
    fn cluster() -> FakeApi {
        let api = FakeApi::default();
        api.respond_to_creations(REVIEWS, |review: Value| {
            let token = review["spec"]["token"].as_str().unwrap_or_default();
            let (user, audience) = token.split_once('@').unwrap_or((token, ""));
            let asked = review["spec"]["audiences"].as_array().cloned().unwrap_or_default();
            let audiences: Vec<_> = asked.into_iter().filter(|asked| asked == audience).collect();
            json!({"spec": {"token": ""}, "status": {
                "authenticated": user != "nobody", "audiences": audiences, "user": {"username": user},
            }})
        });
        api
    }

    fn guard(api: &FakeApi) -> TokenGuard {
        TokenGuard::new(Arc::new(KubernetesReviewer::new(api.client())), "rouse-system", "ours")
    }

    async fn status(guard: &TokenGuard, authorization: &str) -> u16 {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
        }
        guard
            .authorize(&headers, &["activator", "zero-scaler"])
            .await
            .map_or_else(|r| r.status().as_u16(), |()| 200)
    }

    #[tokio::test]
    async fn only_our_own_service_accounts_with_a_token_of_our_audience_come_in() {
        let guard = guard(&cluster());
        for (authorization, expected) in [
            ("Bearer system:serviceaccount:rouse-system:activator@ours", 200),
            ("bearer system:serviceaccount:rouse-system:zero-scaler@ours", 200),
            ("", 401),
            ("Basic system:serviceaccount:rouse-system:activator@ours", 401),
            ("Bearer nobody@ours", 401),
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
    async fn an_answer_is_believed_for_seconds_and_no_answer_lets_nobody_in() {
        let api = cluster();
        let guard = guard(&api);
        let activator = "Bearer system:serviceaccount:rouse-system:activator@ours";
        assert_eq!(status(&guard, activator).await, 200);
        api.set_outage(Some(Outage::Hanging));
        assert_eq!(status(&guard, activator).await, 200, "it was asked just now");
        assert_eq!(api.requests().len(), 1);
        tokio::time::advance(std::time::Duration::from_secs(10)).await;
        assert_eq!(status(&guard, activator).await, 503);
        api.set_outage(Some(Outage::Failing));
        assert_eq!(status(&guard, activator).await, 503);
        api.set_outage(None);
        assert_eq!(status(&guard, activator).await, 200);
    }
}
