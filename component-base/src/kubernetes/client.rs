//! The client of the Kubernetes API.
//!
//! An API server on a lost node, or cut off by the network, closes no connection. A watch then
//! waits for events that never come, and a request for the kernel's retransmissions. So the kernel
//! probes silent connections and gives up those without an acknowledgement, as client-go does by
//! PING frames. Else activators would see new pods up to five minutes after the API server is back.
//!
//! The client retries nothing. kube's own layer repeats each request up to 15 times on 429, 503 and
//! 504, for minutes: a watch would not see that the API server is back, and a reconcile would keep
//! its place. Watches, reconciles, wakes and elections have retries of their own.

use std::time::Duration;

use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::BoxError;
use tower::util::MapErrLayer;

use super::write_deadline::WriteDeadlineLayer;

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

/// The layers of kube's own client that are not for tracing, around another connector.
fn direct_client(config: &Config) -> Result<Client, kube::Error> {
    let https = config.rustls_https_connector_with_connector(connector())?;
    let client: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(https);
    let builder = ClientBuilder::new(client, &config.default_namespace);
    let builder = builder.with_layer(&MapErrLayer::new(BoxError::from));
    let builder = builder.with_layer(&config.extra_headers_layer()?);
    let base_uri = config.base_uri_layer();
    Ok(match config.auth_layer()? {
        Some(auth) => builder.with_layer(&auth).with_layer(&WriteDeadlineLayer).with_layer(&base_uri).build(),
        None => builder.with_layer(&WriteDeadlineLayer).with_layer(&base_uri).build(),
    })
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use socket2::SockRef;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tower::Service;

    use super::*;

    /// An API server that sheds load: the caller has to see it, and decides about the next request.
    #[tokio::test]
    async fn rejected_request_is_not_sent_again() {
        install_tls();
        for status in ["429 Too Many Requests", "503 Service Unavailable", "504 Gateway Timeout"] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let requests = Arc::new(AtomicUsize::new(0));
            let served = requests.clone();
            tokio::spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let _ = stream.read(&mut [0; 4096]).await;
                    served.fetch_add(1, Ordering::Relaxed);
                    let head = format!(
                        "HTTP/1.1 {status}\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    );
                    stream.write_all(head.as_bytes()).await.unwrap();
                }
            });
            direct_client(&Config::new(server)).unwrap().apiserver_version().await.unwrap_err();
            assert_eq!(requests.load(Ordering::Relaxed), 1, "{status}");
        }
    }

    #[tokio::test]
    async fn connection_to_lost_api_server_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
        let stream = connector().call(server).await.unwrap().into_inner();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_INTERVAL);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_INTERVAL);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(LOST_AFTER));
    }
}
