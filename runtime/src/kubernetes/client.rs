//! The client of the Kubernetes API.

use kube::{Client, Config};

/// Name under which our requests appear in audit logs, before the component.
const AGENT: &str = "rouse";

/// A client by the pod's service account, or by KUBECONFIG outside of a cluster.
///
/// # Errors
/// When there is neither, or it cannot be read.
pub async fn client(component: &str, version: &str) -> Result<Client, ClientError> {
    install_tls();
    let mut config = Config::infer().await?;
    let agent = format!("{AGENT}-{component}/{version}");
    config.headers.push((http::header::USER_AGENT, agent.parse()?));
    Ok(Client::try_from(config)?)
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No service account and no kubeconfig, or one that is broken.
    #[error("neither a service account nor a kubeconfig: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The component's name is no legal header.
    #[error("user agent: {0}")]
    Agent(#[from] http::header::InvalidHeaderValue),
    /// TLS could not be set up.
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// Makes ring the process's TLS provider; kube and our own listeners share it.
fn install_tls() {
    // An error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
