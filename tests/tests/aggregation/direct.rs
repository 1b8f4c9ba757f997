//! Direct: one adapter pod, spoken to on its own port, past the API server.

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
use system_tests::installation::{self, of_ours};
use system_tests::namespace::TestNamespace;
use system_tests::token::token;
use tokio_rustls::TlsConnector;

use crate::front_proxy::Identity;

/// The name by which the aggregation layer calls.
const NAME: &str = "metrics-adapter.rouse-system.svc";
/// Time for one answer: whoever asks must not have to wait for what does not answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// One replica.
pub(crate) struct Adapter {
    client: Client,
    pod: String,
    roots: RootCertStore,
}

/// A connection to it.
pub(crate) enum Connection {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// What it answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

// === impl Adapter ===

impl Adapter {
    /// One of those that are ready.
    pub(crate) async fn any(client: &Client) -> Result<Self> {
        let pod = installation::pods(client, METRICS_ADAPTER_ACCOUNT).await?.pop().context("no adapter")?;
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

    /// By this version of TLS and this protocol, or not at all.
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
        let mut forwarder = of_ours::<Pod>(&self.client).portforward(&self.pod, &[API_PORT]).await?;
        let stream = forwarder.take_stream(API_PORT).context("no stream")?;
        let stream =
            TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(NAME)?, stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        ensure!(agreed == Some(protocol.as_bytes()), "{agreed:?} was agreed on");
        if protocol == "h2" {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(Connection::Http2(sender));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection::Http1(sender))
    }

    /// How often its container was started anew.
    pub(crate) async fn restarts(&self) -> Result<i32> {
        let status = of_ours::<Pod>(&self.client).get(&self.pod).await?.status.unwrap_or_default();
        Ok(status.container_statuses.iter().flatten().map(|container| container.restart_count).sum())
    }

    /// Reviews that it has asked for so far.
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
    /// Asks as a front proxy does for a user.
    pub(crate) async fn get_as(&mut self, user: &str, groups: &[&str], path: &str) -> Result<Asked> {
        let groups = groups.iter().map(|group| ("x-remote-group", (*group).to_owned()));
        let headers: Vec<_> = [("x-remote-user", user.to_owned())].into_iter().chain(groups).collect();
        self.get(path, &headers).await
    }

    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, String)]) -> Result<Asked> {
        tokio::time::timeout(PATIENCE, self.ask(path, headers)).await.context("no answer in time")?
    }

    async fn ask(&mut self, path: &str, headers: &[(&str, String)]) -> Result<Asked> {
        let request = match self {
            Self::Http1(_) => Request::get(path).header("host", NAME),
            Self::Http2(_) => Request::get(format!("https://{NAME}{path}")),
        };
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let request = request.body(Empty::new())?;
        let answer: http::Response<Incoming> = match self {
            Self::Http1(sender) => sender.send_request(request).await?,
            Self::Http2(sender) => sender.send_request(request).await?,
        };
        let (head, body) = answer.into_parts();
        Ok(Asked { status: head.status, headers: head.headers, body: body.collect().await?.to_bytes() })
    }
}

// === impl Asked ===

impl Asked {
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

/// A token for the API server, of an account that may do nothing in particular.
pub(crate) async fn token_of_nobody_special(namespace: &TestNamespace) -> Result<String> {
    token(&namespace.api(), "default", None).await
}
