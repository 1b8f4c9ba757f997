//! Auth: who asks, and whether they may.
//!
//! ```text
//! client certificate of the front proxy, name allowed ─► X-Remote-* headers say who
//! else Authorization: Bearer ─► TokenReview says who, or 401
//! else ─► system:anonymous
//! ```
//!
//! Then a SubjectAccessReview, for everybody but `system:masters`. Headers are believed only on a connection whose
//! certificate verifies now, against the CA that the cluster publishes now. If nobody can be asked, the answer is an error
//! and never yes.

mod front_proxy;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use runtime::auth::bearer_token;
use runtime::auth::{Access, ReviewCache, Reviewer, User};
use rustls_pki_types::CertificateDer;

pub use front_proxy::{FrontProxy, FrontProxyError, follow};

use super::ApiError;
use crate::metrics::Outcomes;

const AUTHENTICATED: &str = "system:authenticated";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The certificate that a client showed, and its chain; the handshake has proven that it holds the key. Nothing else about
/// it is proven. Empty if it showed none. Clones are of the same connection.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificates {
    shown: Arc<[CertificateDer<'static>]>,
    /// By whom it was last found to be the front proxy's, and until when that is believed.
    found: Arc<ArcSwapOption<Found>>,
}

/// That a certificate is the front proxy's.
#[derive(Debug)]
struct Found {
    by: Arc<FrontProxy>,
    until: Duration,
}

/// Authentication and authorization.
#[derive(Debug)]
pub struct Auth {
    front_proxy: Arc<ArcSwap<FrontProxy>>,
    reviewer: Arc<dyn Reviewer>,
    tokens: ReviewCache<Option<User>>,
    accesses: ReviewCache<Access>,
    counts: Outcomes,
}

// === impl PeerCertificates ===

impl PeerCertificates {
    /// What this client showed in its handshake, its own certificate first.
    pub fn new(shown: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        Self { shown: shown.into_iter().collect(), found: Arc::default() }
    }
}

// === impl Auth ===

impl Auth {
    /// Believes `front_proxy` as it is at each request, and asks `reviewer` for the rest.
    pub fn new(front_proxy: Arc<ArcSwap<FrontProxy>>, reviewer: Arc<dyn Reviewer>, counts: Outcomes) -> Self {
        Self {
            front_proxy,
            reviewer,
            tokens: ReviewCache::default(),
            accesses: ReviewCache::default(),
            counts,
        }
    }

    /// Who asks.
    ///
    /// # Errors
    /// On a bearer token that is not accepted, or if nobody could be asked about it.
    pub async fn authenticate(&self, headers: &HeaderMap, peer: &PeerCertificates) -> Result<User, ApiError> {
        let front_proxy = self.front_proxy.load();
        if let Some(user) = FrontProxy::authenticate(&front_proxy, headers, peer) {
            return Ok(authenticated(user));
        }
        match bearer_token(headers) {
            Some(token) => Ok(authenticated(self.token(token).await?)),
            None => Ok(anonymous()),
        }
    }

    /// Whether they may.
    ///
    /// # Errors
    /// If not, or if nobody could be asked.
    pub async fn authorize(&self, spec: SubjectAccessReviewSpec) -> Result<(), ApiError> {
        let question = serde_json::to_string(&spec).map_err(|error| ApiError::Review(error.to_string()))?;
        let access = match self.accesses.get(&question) {
            Some(known) => known,
            None => {
                let answer = self.reviewer.access(spec.clone()).await;
                self.counts.count(answer.is_ok());
                let access = answer.map_err(|error| ApiError::Review(error.to_string()))?;
                self.accesses.insert(question, access.clone());
                access
            }
        };
        match access {
            Access::Allowed => Ok(()),
            Access::Denied(reason) => Err(ApiError::Forbidden(refusal(&spec, &reason))),
        }
    }

    async fn token(&self, token: &str) -> Result<User, ApiError> {
        let user = match self.tokens.get(token) {
            Some(known) => known,
            None => {
                let answer = self.reviewer.token(token, None).await;
                self.counts.count(answer.is_ok());
                let user = answer.map_err(|error| ApiError::Review(error.to_string()))?;
                self.tokens.insert(token.to_owned(), user.clone());
                user
            }
        };
        user.ok_or_else(|| ApiError::Unauthorized("the cluster does not know it".to_owned()))
    }
}

fn anonymous() -> User {
    User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
}

/// With the group of everybody who said who they are. The aggregation layer sends some users without any group.
fn authenticated(mut user: User) -> User {
    if user.name != ANONYMOUS && !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The sentence in which kube-apiserver refuses as well.
fn refusal(spec: &SubjectAccessReviewSpec, reason: &str) -> String {
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
