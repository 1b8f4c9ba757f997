//! The client of the Kubernetes API.

use kube::{Client, Config};

/// Prefix of the User-Agent in audit logs.
const AGENT: &str = "rouse";

/// Creates a client with the pod's service account, or with KUBECONFIG outside a cluster.
///
/// # Errors
/// When neither is available or valid.
pub async fn client(component: &str, version: &str) -> Result<Client, ClientError> {
    install_tls();
    let mut config = Config::infer().await?;
    let agent = format!("{AGENT}-{component}/{version}");
    config.headers.push((http::header::USER_AGENT, agent.parse()?));
    Ok(Client::try_from(config)?)
}

/// Why the client could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No valid service account or kubeconfig.
    #[error("no usable service account or kubeconfig: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The component name is not valid in a header.
    #[error("invalid user agent: {0}")]
    Agent(#[from] http::header::InvalidHeaderValue),
    /// The TLS client could not be created.
    #[error(transparent)]
    Client(#[from] kube::Error),
}

/// Installs ring as the TLS provider of the process; kube and Rouse's own listeners share it.
fn install_tls() {
    // An error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
