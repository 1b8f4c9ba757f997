//! Reviews: the questions to the cluster, TokenReview and SubjectAccessReview, and for how long an answer is believed.
//!
//! Asked by the metrics-adapter about the callers of its API, and through the
//! [`TokenGuard`](super::TokenGuard) about our own parts. Without an answer there is an error, never a yes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

/// Time for the cluster to answer. Callers wait for it, the HPA's few workers among them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Somebody who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// User name.
    pub name: String,
    /// Unique id, if it has one.
    pub uid: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// Whatever else the authenticator said.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Whether somebody may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Allowed,
    /// No, and perhaps why.
    Denied(String),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The API server refused or could not be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// It took too long.
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
    /// The answer has no status.
    #[error("the answer says nothing")]
    Empty,
}

/// Answers questions about users; the cluster, outside of tests.
pub trait Reviewer: std::fmt::Debug + Send + Sync {
    /// Whose token this is; `None` if nobody's. It must be meant for `audience`, or for the API server if there is none.
    fn token<'a>(
        &'a self,
        token: &'a str,
        audience: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>>;
    /// Whether a user may do something.
    fn access(&self, spec: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>>;
}

/// Asks kube-apiserver.
#[derive(Clone)]
pub struct KubernetesReviewer {
    client: Client,
}

// === impl KubernetesReviewer ===

impl KubernetesReviewer {
    /// Asks by this client, whose user needs `system:auth-delegator`.
    pub fn new(client: Client) -> Self {
        Self { client }
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
        // An authenticator that knows no audiences says yes without naming any: that is no yes to ours.
        let heard = |wanted: &str| status.audiences.iter().flatten().any(|audience| audience == wanted);
        if !audience.is_none_or(heard) {
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
        let review = tokio::time::timeout(TIMEOUT, self.review_token(token, audience));
        Box::pin(async { review.await.unwrap_or(Err(ReviewError::Timeout)) })
    }

    fn access(&self, spec: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>> {
        let review = tokio::time::timeout(TIMEOUT, self.review_access(spec));
        Box::pin(async { review.await.unwrap_or(Err(ReviewError::Timeout)) })
    }
}

impl std::fmt::Debug for KubernetesReviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesReviewer").finish_non_exhaustive()
    }
}
