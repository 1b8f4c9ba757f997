//! Authentication between Rouse's own parts, and of clients of the metrics API.

mod projected_token;
#[cfg(feature = "kube")]
mod review_budget;
#[cfg(feature = "kube")]
mod review_cache;
#[cfg(feature = "kube")]
mod reviews;
#[cfg(feature = "kube")]
mod token_cache;
#[cfg(feature = "kube")]
mod token_guard;

pub use projected_token::{ProjectedToken, TokenError};
#[cfg(feature = "kube")]
pub use review_budget::{ALL_CLIENTS, ReviewBudget, ReviewBudgetExceeded, TOKEN_REVIEWS};
#[cfg(feature = "kube")]
pub use review_cache::ReviewCache;
#[cfg(feature = "kube")]
pub use reviews::{Access, KubernetesReviewer, ReviewError, Reviewer, User};
#[cfg(feature = "kube")]
pub use token_cache::TokenCache;
#[cfg(feature = "kube")]
pub use token_guard::{AuthError, TokenGuard, bearer_token};
