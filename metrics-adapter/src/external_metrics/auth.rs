//! Auth: authenticates and authorizes requests to the metrics API.
//!
//! ```text
//! client certificate of the front proxy, name allowed ─► user from the X-Remote-* headers
//! else Authorization: Bearer ─► user from a TokenReview, or 401
//! else ─► system:anonymous
//! ```
//!
//! A SubjectAccessReview follows, except for members of `system:masters`. The headers are trusted
//! only if the connection's certificate verifies against the currently published CA. If a review
//! fails, the request fails.

pub(super) mod access_review;
mod front_proxy;
mod front_proxy_watch;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use component_base::auth::bearer_token;
use component_base::auth::{
    Access, ReviewBudget, ReviewCache, ReviewError, Reviewer, TOKEN_REVIEWS, TokenCache, User,
};
use http::HeaderMap;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;

pub use front_proxy::{FrontProxy, FrontProxyError, PeerCertificates};
pub use front_proxy_watch::watch_front_proxy;

use crate::external_metrics::error::ApiError;
use crate::metrics::OutcomeCounters;

const AUTHENTICATED: &str = "system:authenticated";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Authenticates and authorizes requests, with a cache of reviews.
#[derive(Debug)]
pub struct Auth {
    front_proxy: Arc<ArcSwap<FrontProxy>>,
    reviewer: Arc<dyn Reviewer>,
    tokens: TokenCache,
    token_budget: ReviewBudget,
    accesses: ReviewCache<Access>,
    counts: OutcomeCounters,
}

// === impl Auth ===

impl Auth {
    /// Trusts the current `front_proxy`, and reviews everything else with `reviewer`.
    pub fn new(
        front_proxy: Arc<ArcSwap<FrontProxy>>,
        reviewer: Arc<dyn Reviewer>,
        counts: OutcomeCounters,
    ) -> Self {
        Self {
            front_proxy,
            reviewer,
            tokens: TokenCache::default(),
            token_budget: ReviewBudget::new(TOKEN_REVIEWS),
            accesses: ReviewCache::default(),
            counts,
        }
    }

    /// Whether the peer is the cluster's front proxy.
    pub fn trusts(&self, peer: &PeerCertificates) -> bool {
        FrontProxy::trusts(&self.front_proxy.load(), peer)
    }

    /// The user of a request from the address `client`.
    ///
    /// # Errors
    /// When the bearer token is invalid or could not be reviewed.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &PeerCertificates,
        client: IpAddr,
    ) -> Result<User, ApiError> {
        let front_proxy = self.front_proxy.load();
        if let Some(user) = FrontProxy::authenticate(&front_proxy, headers, peer) {
            return Ok(authenticated(user));
        }
        match bearer_token(headers) {
            Some(token) => Ok(authenticated(self.token(token, client).await?)),
            None => Ok(anonymous()),
        }
    }

    /// Checks that the cluster's authorizers allow an access.
    ///
    /// # Errors
    /// When they deny it, or when it could not be reviewed.
    pub async fn authorize(&self, spec: SubjectAccessReviewSpec) -> Result<(), ApiError> {
        let cache_key = serde_json::to_string(&spec).map_err(ApiError::EncodeReview)?;
        let access = match self.accesses.get(&cache_key) {
            Some(cached) => cached,
            None => {
                let review = self.reviewer.access(spec.clone()).await;
                self.counts.count(review.is_ok());
                let access = review?;
                self.accesses.insert(cache_key, access.clone());
                access
            }
        };
        match access {
            Access::Allowed => Ok(()),
            Access::Denied(reason) => Err(ApiError::Forbidden(forbidden_message(&spec, &reason))),
        }
    }

    async fn token(&self, token: &str, client: IpAddr) -> Result<User, ApiError> {
        let user = match self.tokens.get(token) {
            Some(cached) => cached,
            None => {
                let _place = self.token_budget.acquire(client).await.map_err(ReviewError::from)?;
                let review = self.reviewer.token(token, None).await;
                self.counts.count(review.is_ok());
                let user = review?;
                self.tokens.insert(token, user.clone());
                user
            }
        };
        user.ok_or(ApiError::Unauthorized)
    }
}

fn anonymous() -> User {
    User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
}

/// Adds the group of all authenticated users. The aggregation layer sends some users without any
/// group.
fn authenticated(mut user: User) -> User {
    if user.name != ANONYMOUS && !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The message of kube-apiserver's own Forbidden status.
fn forbidden_message(spec: &SubjectAccessReviewSpec, reason: &str) -> String {
    let user = spec.user.as_deref().unwrap_or_default();
    let what = match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(resource), _) => format!(
            "{} resource {:?} in API group {:?} in the namespace {:?}",
            resource.verb.as_deref().unwrap_or_default(),
            resource.resource.as_deref().unwrap_or_default(),
            resource.group.as_deref().unwrap_or_default(),
            resource.namespace.as_deref().unwrap_or_default(),
        ),
        (None, Some(path)) => format!(
            "{} path {:?}",
            path.verb.as_deref().unwrap_or_default(),
            path.path.as_deref().unwrap_or_default()
        ),
        (None, None) => "do this".to_owned(),
    };
    let separator = if reason.is_empty() { "" } else { ": " };
    format!("User {user:?} cannot {what}{separator}{reason}")
}
