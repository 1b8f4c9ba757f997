//! TokenReview and SubjectAccessReview requests to the API server.
//!
//! metrics-adapter sends them for clients of its API; [`TokenGuard`](super::TokenGuard) for Rouse's
//! own parts. A failed review is an error and never grants access. The number of concurrent reviews
//! is bounded: of tokens by the caller, with a budget for each port, and of access here. Those that
//! any client can cause have budgets apart from the others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use super::review_budget::{ALL_CLIENTS, ReviewBudget, ReviewBudgetExceeded};

/// Timeout of a review. Clients wait for it, among them the HPA controller's few workers.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a review takes if the token is not valid. With 16 places of a
/// [`ReviewBudget`], a flood of such tokens thus costs the API server 64 reviews a second. Valid
/// tokens keep their place for their review alone, and are cached.
const INVALID_TOKEN_PLACE: Duration = Duration::from_millis(250);
/// Concurrent access reviews of authenticated users.
const ACCESS_REVIEWS: usize = 64;
/// Concurrent access reviews of anonymous clients.
const ANONYMOUS_REVIEWS: usize = 4;
/// The user of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    /// Unique id, if it has one.
    pub uid: Option<String>,
    pub groups: Vec<String>,
    /// Other attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The result of an access review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The request is allowed.
    Allowed,
    /// The request is denied; the reason may be empty.
    Denied(String),
}

/// Why a review has no result.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The API server returned an error or cannot be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The review timed out.
    #[error("no response within {TIMEOUT:?}")]
    Timeout,
    /// The response has no status.
    #[error("the review has no status")]
    Empty,
    /// Too many reviews run already.
    #[error("too many reviews at the same time; retry later")]
    Busy,
}

/// Reviews tokens and access. Tests replace the cluster by an implementation of their own.
pub trait Reviewer: std::fmt::Debug + Send + Sync {
    /// The user of a token; `None` if it is not valid. It must be valid for `audience`, or for the
    /// API server without one. The caller bounds the number of these reviews.
    fn token<'a>(
        &'a self,
        token: &'a str,
        audience: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>>;
    /// Reviews access to a resource.
    fn access(&self, spec: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>>;
}

/// Sends reviews to kube-apiserver.
#[derive(Clone)]
pub struct KubernetesReviewer {
    client: Client,
    accesses: ReviewBudget,
    anonymous: ReviewBudget,
}

// === impl KubernetesReviewer ===

impl KubernetesReviewer {
    /// The client's service account needs the ClusterRole `system:auth-delegator`.
    pub fn new(client: Client) -> Self {
        let accesses = ReviewBudget::new(ACCESS_REVIEWS);
        Self { client, accesses, anonymous: ReviewBudget::new(ANONYMOUS_REVIEWS) }
    }

    async fn review_token(&self, token: &str, audience: Option<&str>) -> Result<Option<User>, ReviewError> {
        let audiences = audience.map(|audience| vec![audience.to_owned()]);
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let status = api.create(&PostParams::default(), &review).await?.status.ok_or(ReviewError::Empty)?;
        if status.authenticated != Some(true) {
            return Ok(None);
        }
        // An authenticator without support for audiences returns none: such a token is not valid
        // for ours.
        let confirmed = |wanted: &str| status.audiences.iter().flatten().any(|audience| audience == wanted);
        if !audience.is_none_or(confirmed) {
            return Ok(None);
        }
        Ok(status.user.and_then(|user| {
            Some(User {
                name: user.username.filter(|name| !name.is_empty())?,
                uid: user.uid,
                groups: user.groups.unwrap_or_default(),
                extra: user.extra.unwrap_or_default(),
            })
        }))
    }

    async fn review_access(&self, spec: SubjectAccessReviewSpec) -> Result<Access, ReviewError> {
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = api.create(&PostParams::default(), &review).await?.status.ok_or(ReviewError::Empty)?;
        if status.allowed && status.denied != Some(true) {
            return Ok(Access::Allowed);
        }
        Ok(Access::Denied(status.reason.unwrap_or_default()))
    }
}

impl Reviewer for KubernetesReviewer {
    fn token<'a>(
        &'a self,
        token: &'a str,
        audience: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        Box::pin(async move {
            let began = Instant::now();
            let user = in_time(self.review_token(token, audience)).await?;
            if user.is_none() {
                tokio::time::sleep_until(began + INVALID_TOKEN_PLACE).await;
            }
            Ok(user)
        })
    }

    fn access(&self, spec: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>> {
        let is_anonymous = spec.user.as_deref() == Some(ANONYMOUS);
        let budget = if is_anonymous { &self.anonymous } else { &self.accesses };
        Box::pin(within(budget, self.review_access(spec)))
    }
}

/// Runs a review when `budget` has a place, within the timeout.
async fn within<T>(
    budget: &ReviewBudget,
    review: impl Future<Output = Result<T, ReviewError>>,
) -> Result<T, ReviewError> {
    let _permit = budget.acquire(ALL_CLIENTS).await?;
    in_time(review).await
}

async fn in_time<T>(review: impl Future<Output = Result<T, ReviewError>>) -> Result<T, ReviewError> {
    tokio::time::timeout(TIMEOUT, review).await.unwrap_or(Err(ReviewError::Timeout))
}

impl From<ReviewBudgetExceeded> for ReviewError {
    fn from(_: ReviewBudgetExceeded) -> Self {
        Self::Busy
    }
}

impl std::fmt::Debug for KubernetesReviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesReviewer").finish_non_exhaustive()
    }
}
