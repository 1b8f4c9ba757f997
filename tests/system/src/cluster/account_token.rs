//! Tokens of service accounts.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};

/// Requests a token of `account` for these audiences; for the API server itself if there are none.
///
/// # Errors
/// When the API server issues none.
pub async fn request_token(
    accounts: &Api<ServiceAccount>,
    account: &str,
    audiences: Option<Vec<String>>,
) -> Result<String> {
    let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let created = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    created.status.and_then(|status| status.token).context("the TokenRequest has no token")
}
