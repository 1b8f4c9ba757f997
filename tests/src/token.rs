//! Tokens of service accounts, asked of the API server.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};

/// A token of `account` for these audiences; for the API server itself, if none is named.
///
/// # Errors
/// When the API server makes none.
pub async fn token(
    accounts: &Api<ServiceAccount>,
    account: &str,
    audiences: Option<Vec<String>>,
) -> Result<String> {
    let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let made = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    made.status.and_then(|status| status.token).context("no token was made")
}
