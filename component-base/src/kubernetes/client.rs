//! The client of the Kubernetes API.
//!
//! An API server on a lost node, or cut off by the network, closes no connection. A watch then
//! waits for events that never come, and a request for the kernel's retransmissions. So the kernel
//! probes silent connections and gives up those without an acknowledgement, as client-go does by
//! PING frames. Else activators would see new pods up to five minutes after the API server is back.
//!
//! Reads, watches among them, [share connections](shared_connections). Writes share others: a Lease
//! is renewed, and a workload woken, whatever the watches transfer.
//!
//! The client retries nothing. kube's own layer repeats each request up to 15 times on 429, 503 and
//! 504, for minutes: a watch would not see that the API server is back, and a reconcile would keep
//! its place. Watches, reconciles, wakes and elections have retries of their own.

mod shared_connections;

use std::sync::Arc;
use std::time::Duration;

use http::header::UPGRADE;
use http::{Method, Request, Response};
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use rustls::pki_types::ServerName;
use tower::layer::layer_fn;
use tower::{BoxError, service_fn};

use self::shared_connections::{ResponseBody, SendResult, SharedConnections};
use super::write_deadline::WriteDeadline;

/// Prefix of the User-Agent in audit logs.
const AGENT: &str = "rouse";
/// Silence before the kernel probes the API server, and between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Time without an acknowledgement, of a probe or of bytes, that ends a connection.
const LOST_AFTER: Duration = Duration::from_secs(20);
/// A lost SYN is sent again after 1, 3 and 7 s; with a new connection none is further apart.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Creates a client with the pod's service account, or with KUBECONFIG outside a cluster.
///
/// # Errors
/// When neither is available or valid.
pub async fn client(component: &str, version: &str) -> Result<Client, ClientError> {
    install_tls();
    let mut config = Config::infer().await?;
    let agent = format!("{AGENT}-{component}/{version}");
    config.headers.push((http::header::USER_AGENT, agent.parse()?));
    if config.proxy_url.is_some() {
        // The proxy's connections are kube's to make.
        return Ok(Client::try_from(config)?);
    }
    Ok(direct_client(&config)?)
}

/// The layers of kube's own client that are not for tracing, around other connections.
fn direct_client(config: &Config) -> Result<Client, kube::Error> {
    let https = config.rustls_https_connector_with_connector(connector())?;
    let http1: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(https);
    let http2 = http2_connector(config)?;
    let shared = || Arc::new(SharedConnections::new(http2.clone(), config.cluster_url.clone()));
    let (reads, writes) = (shared(), shared());
    let service = service_fn(move |mut request: Request<Body>| {
        let shared = if request.method() == Method::GET { &reads } else { &writes };
        let (http1, shared) = (http1.clone(), shared.clone());
        async move {
            // A request that switches protocols, such as `exec`, needs HTTP/1.1.
            if !request.headers().contains_key(UPGRADE) {
                request = match shared.send(request).await? {
                    SendResult::Response(response) => return Ok(response),
                    SendResult::Unsent(request) => request,
                };
            }
            Ok::<Response<ResponseBody>, BoxError>(http1.request(request).await?.map(ResponseBody::from))
        }
    });
    let builder = ClientBuilder::new(service, &config.default_namespace);
    let builder = builder.with_layer(&config.extra_headers_layer()?);
    let base_uri = config.base_uri_layer();
    Ok(match config.auth_layer()? {
        Some(auth) => {
            builder.with_layer(&auth).with_layer(&layer_fn(WriteDeadline)).with_layer(&base_uri).build()
        }
        None => builder.with_layer(&layer_fn(WriteDeadline)).with_layer(&base_uri).build(),
    })
}

/// kube's own connector offers HTTP/1.1 alone.
fn http2_connector(config: &Config) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = config.tls_server_name.clone().and_then(|name| ServerName::try_from(name).ok());
    let resolver: Arc<dyn ResolveServerName + Send + Sync> = match name {
        Some(name) => Arc::new(FixedServerNameResolver::new(name)),
        None => Arc::new(DefaultServerNameResolver::default()),
    };
    Ok(HttpsConnector::new(connector(), tls, false, resolver))
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // Else a request waits for the acknowledgement of another one on its connection.
    connector.set_nodelay(true);
    // As `listener::outbound`.
    connector.set_reuse_address(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(PROBE_INTERVAL));
    connector.set_keepalive_interval(Some(PROBE_INTERVAL));
    // Ends the probes as well, whatever their number.
    connector.set_tcp_user_timeout(Some(LOST_AFTER));
    connector
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

#[cfg(test)]
mod tests;
