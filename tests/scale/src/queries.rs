//! Queries: what HPAs ask, through the aggregation layer, at a steady rate, each timed from the moment when it was due.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use hdrhistogram::Histogram;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_rustls::TlsConnector;

use crate::adapter::Adapter;
use crate::world::{Place, World};

const NAME: &str = "metrics-adapter.rouse-system.svc";
/// Of three API servers, and of one that reconnects.
const CONNECTIONS: usize = 4;
/// How often those that are due are sent.
const PACE: Duration = Duration::from_millis(1);
/// Time for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Microseconds; whatever takes longer is counted as this.
const LONGEST: u64 = 60_000_000;

/// Connections of the aggregation layer.
pub(crate) struct Callers {
    connections: Vec<SendRequest<Empty<Bytes>>>,
    workloads: usize,
}

/// What became of the queries.
pub(crate) struct Answers {
    /// Microseconds.
    pub(crate) latency: Histogram<u64>,
    pub(crate) failed: u64,
    /// The last failure.
    pub(crate) failure: Option<String>,
    /// Of all values that were answered.
    pub(crate) mean_value: f64,
}

// === impl Callers ===

impl Callers {
    pub(crate) async fn connect(world: &World, adapter: &Adapter, workloads: usize) -> Result<Self> {
        let connector = TlsConnector::from(Arc::new(config(world)?));
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(adapter.api).await?;
            stream.set_nodelay(true)?;
            let stream = connector.connect(ServerName::try_from(NAME)?, stream).await?;
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            connections.push(sender);
        }
        Ok(Self { connections, workloads })
    }

    /// Asks `rate` times a second for so long.
    pub(crate) async fn ask(&self, rate: u32, during: Duration) -> Result<Answers> {
        let (told, mut answers) = mpsc::unbounded_channel();
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let start = Instant::now();
        let apart = Duration::from_secs(1) / rate.max(1);
        let mut due = start;
        let mut connections = self.connections.iter().cycle();
        while start.elapsed() < during {
            pace.tick().await;
            while due <= Instant::now() {
                let mut connection = connections.next().context("no connection")?.clone();
                let (request, told, since) = (self.request()?, told.clone(), due);
                tokio::spawn(async move {
                    let answer = value(&mut connection, request).await;
                    let _ = told.send((since.elapsed(), answer));
                });
                due += apart;
            }
        }
        drop(told);
        let latency = Histogram::new_with_bounds(1, LONGEST, 3)?;
        let mut sum = Answers { latency, failed: 0, failure: None, mean_value: 0.0 };
        while let Some((latency, answer)) = answers.recv().await {
            sum.add(latency, answer);
        }
        sum.mean_value /= sum.latency.len().max(1) as f64;
        Ok(sum)
    }

    /// One question, and how it is answered.
    pub(crate) async fn ask_one(&self) -> Result<f64> {
        let mut connection = self.connections.choose(&mut rand::rng()).context("no connection")?.clone();
        tokio::time::timeout(PATIENCE, value(&mut connection, self.request()?)).await?
    }

    fn request(&self) -> Result<Request<Empty<Bytes>>> {
        let Place { namespace, name } = Place::of(rand::rng().random_range(0..self.workloads));
        let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/concurrency");
        Ok(Request::get(format!("https://{NAME}{path}?labelSelector=service%3D{name}"))
            .header("x-remote-user", "system:serviceaccount:kube-system:horizontal-pod-autoscaler")
            .header("x-remote-group", "system:serviceaccounts")
            .header("x-remote-group", "system:authenticated")
            .header("accept", "application/json")
            .body(Empty::new())?)
    }
}

// === impl Answers ===

impl Answers {
    fn add(&mut self, latency: Duration, answer: Result<f64>) {
        match answer {
            Ok(value) => {
                self.latency.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LONGEST));
                self.mean_value += value;
            }
            Err(error) => {
                self.failed += 1;
                self.failure = Some(format!("{error:#}"));
            }
        }
    }
}

async fn value(connection: &mut SendRequest<Empty<Bytes>>, request: Request<Empty<Bytes>>) -> Result<f64> {
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if status != StatusCode::OK {
        bail!("{status}: {}", String::from_utf8_lossy(&body));
    }
    let list: Value = serde_json::from_slice(&body)?;
    let value = list.pointer("/items/0/value").and_then(Value::as_str).context("no value")?;
    let milli = autoscaler::quantity::parse_milli(value)?;
    Ok(milli as f64 / 1000.0)
}

fn config(world: &World) -> Result<ClientConfig> {
    let ca = world.serving_ca().context("the adapter has made no certificate")?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&ca) {
        roots.add(certificate.map_err(|error| anyhow::anyhow!("{error}"))?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (certificate, key) = &world.front_proxy;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate.clone()], key.clone_key())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
