//! Requests as another user, which administrators may send.

use anyhow::Result;
use kube::{Client, Config};

/// The user name of one of the installation's service accounts.
pub fn service_account(name: &str) -> String {
    format!("system:serviceaccount:{}:{name}", super::installation::NAMESPACE)
}

/// A client of the same API server as this user, with the groups of every authenticated user.
///
/// # Errors
/// When there is no usable kubeconfig.
pub async fn client_as(user: &str) -> Result<Client> {
    let mut config = Config::infer().await?;
    config.auth_info.impersonate = Some(user.to_owned());
    Ok(Client::try_from(config)?)
}
