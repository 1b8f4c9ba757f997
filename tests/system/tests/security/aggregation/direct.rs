//! A direct connection to one adapter pod, past the API server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::{ADMIN_PORT, API_PORT, METRICS_ADAPTER_ACCOUNT};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::Api;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use system_tests::cluster::account_token::request_token;
use system_tests::cluster::installation::{self, system_api};
use system_tests::cluster::namespace::TestNamespace;
use tokio_rustls::TlsConnector;

use super::front_proxy::Identity;

/// The DNS name that the aggregation layer uses.
const NAME: &str = "metrics-adapter.rouse-system.svc";
/// Time for one response.
const TIMEOUT: Duration = Duration::from_secs(15);

/// One replica of the adapter.
pub(crate) struct Adapter {
    client: Client,
    pod: String,
    roots: RootCertStore,
}

/// A connection to an adapter.
pub(crate) enum Connection {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

#[derive(Debug)]
pub(crate) struct AdapterResponse {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

// === impl Adapter ===

impl Adapter {
    /// A ready replica.
    pub(crate) async fn any(client: &Client) -> Result<Self> {
        let pod =
            installation::ready_pods(client, METRICS_ADAPTER_ACCOUNT).await?.pop().context("no adapter")?;
        let services: Api<APIService> = Api::all(client.clone());
        let spec = services.get(installation::API_SERVICE).await?.spec.context("no spec")?;
        let bundle = spec.ca_bundle.context("the APIService has no caBundle")?.0;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            roots.add(certificate?)?;
        }
        Ok(Self { client: client.clone(), pod, roots })
    }

    pub(crate) async fn connect(&self, identity: Option<Identity>) -> Result<Connection> {
        self.connect_by(&rustls::version::TLS13, "h2", identity).await
    }

    /// Connects with exactly this version of TLS and this protocol.
    pub(crate) async fn connect_by(
        &self,
        version: &'static SupportedProtocolVersion,
        protocol: &str,
        identity: Option<Identity>,
    ) -> Result<Connection> {
        let config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(self.roots.clone());
        let mut config = match identity {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key)?,
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let mut forwarder = system_api::<Pod>(&self.client).portforward(&self.pod, &[API_PORT]).await?;
        let stream = forwarder.take_stream(API_PORT).context("no stream")?;
        let stream =
            TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME)?, stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        ensure!(agreed == Some(protocol.as_bytes()), "ALPN selected {agreed:?}");
        if protocol == "h2" {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(Connection::Http2(sender));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection::Http1(sender))
    }

    /// Number of restarts of its containers.
    pub(crate) async fn restarts(&self) -> Result<i32> {
        let status = system_api::<Pod>(&self.client).get(&self.pod).await?.status.unwrap_or_default();
        Ok(status.container_statuses.iter().flatten().map(|container| container.restart_count).sum())
    }

    /// Number of reviews that it has requested.
    pub(crate) async fn reviews(&self) -> Result<usize> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}:{ADMIN_PORT}/proxy/metrics",
            installation::NAMESPACE,
            self.pod
        );
        let metrics = self.client.request_text(Request::get(path).body(Vec::new())?).await?;
        let lines = metrics.lines().filter(|line| line.starts_with("rouse_metrics_adapter_reviews_total{"));
        let counts = lines.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>());
        Ok(counts.sum::<Result<f64, _>>()? as usize)
    }
}

// === impl Connection ===

impl Connection {
    /// Sends a GET as a front proxy does on behalf of a user.
    pub(crate) async fn get_as(
        &mut self,
        user: &str,
        groups: &[&str],
        path: &str,
    ) -> Result<AdapterResponse> {
        let groups = groups.iter().map(|group| ("x-remote-group", (*group).to_owned()));
        let headers: Vec<_> = [("x-remote-user", user.to_owned())].into_iter().chain(groups).collect();
        self.get(path, &headers).await
    }

    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, String)]) -> Result<AdapterResponse> {
        tokio::time::timeout(TIMEOUT, self.send(path, headers)).await.context("no response in time")?
    }

    async fn send(&mut self, path: &str, headers: &[(&str, String)]) -> Result<AdapterResponse> {
        let request = match self {
            Self::Http1(_) => Request::get(path).header("host", NAME),
            Self::Http2(_) => Request::get(format!("https://{NAME}{path}")),
        };
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let request = request.body(Empty::new())?;
        let response: http::Response<Incoming> = match self {
            Self::Http1(sender) => sender.send_request(request).await?,
            Self::Http2(sender) => sender.send_request(request).await?,
        };
        let (head, body) = response.into_parts();
        Ok(AdapterResponse {
            status: head.status,
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
        })
    }
}

// === impl AdapterResponse ===

impl AdapterResponse {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name)?.to_str().ok().map(str::to_owned)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn message(&self) -> String {
        self.json().get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// A token for the API server, of an account without permissions.
pub(crate) async fn token_without_permissions(namespace: &TestNamespace) -> Result<String> {
    request_token(&namespace.api(), "default", None).await
}
