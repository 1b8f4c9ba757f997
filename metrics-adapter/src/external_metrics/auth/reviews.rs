//! Reviews: the questions to the cluster, TokenReview and SubjectAccessReview.

use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};

use super::User;

/// Time for the cluster to answer. The HPA's workers wait for it.
const TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Whose token this is; `None` if nobody's.
    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>>;
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

    async fn review_token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let status = api.create(&PostParams::default(), &review).await?.status.ok_or(ReviewError::Empty)?;
        if status.authenticated != Some(true) {
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
    fn token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        Box::pin(async {
            tokio::time::timeout(TIMEOUT, self.review_token(token)).await.unwrap_or(Err(ReviewError::Timeout))
        })
    }

    fn access(&self, spec: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>> {
        Box::pin(async {
            tokio::time::timeout(TIMEOUT, self.review_access(spec)).await.unwrap_or(Err(ReviewError::Timeout))
        })
    }
}

impl std::fmt::Debug for KubernetesReviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesReviewer").finish_non_exhaustive()
    }
}
