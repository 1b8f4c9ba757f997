//! Queries of HPAs through the aggregation layer, at a constant rate. Latency counts from the time
//! at which a query was due, so that a slow response does not hide the queries behind it.

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
use crate::fake_cluster::{FakeCluster, WorkloadName};

const NAME: &str = "metrics-adapter.rouse-system.svc";
/// Three API servers, and one that reconnects.
const CONNECTIONS: usize = 4;
/// Interval at which due queries are sent.
const SEND_INTERVAL: Duration = Duration::from_millis(1);
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest latency of the histogram, in microseconds.
const MAX_LATENCY: u64 = 60_000_000;

/// Connections of the aggregation layer to one adapter.
pub(crate) struct HpaClients {
    connections: Vec<SendRequest<Empty<Bytes>>>,
    workloads: usize,
}

/// Results of many queries.
pub(crate) struct QueryResults {
    /// Latency of successful queries, in microseconds.
    pub(crate) latency: Histogram<u64>,
    pub(crate) failed: u64,
    pub(crate) last_error: Option<String>,
    /// Mean of all returned values.
    pub(crate) mean_value: f64,
}

// === impl HpaClients ===

impl HpaClients {
    pub(crate) async fn connect(cluster: &FakeCluster, adapter: &Adapter, workloads: usize) -> Result<Self> {
        let connector = TlsConnector::from(Arc::new(config(cluster)?));
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

    /// Sends `rate` queries per second for this time.
    pub(crate) async fn run(&self, rate: u32, during: Duration) -> Result<QueryResults> {
        let (sender, mut results) = mpsc::unbounded_channel();
        let mut ticks = tokio::time::interval(SEND_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let start = Instant::now();
        let interval = Duration::from_secs(1) / rate.max(1);
        let mut due = start;
        let mut connections = self.connections.iter().cycle();
        while start.elapsed() < during {
            ticks.tick().await;
            while due <= Instant::now() {
                let mut connection = connections.next().context("no connection")?.clone();
                let (request, sender, since) = (self.request()?, sender.clone(), due);
                tokio::spawn(async move {
                    let result = value(&mut connection, request).await;
                    let _ = sender.send((since.elapsed(), result));
                });
                due += interval;
            }
        }
        drop(sender);
        let latency = Histogram::new_with_bounds(1, MAX_LATENCY, 3)?;
        let mut sum = QueryResults { latency, failed: 0, last_error: None, mean_value: 0.0 };
        while let Some((latency, result)) = results.recv().await {
            sum.add(latency, result);
        }
        sum.mean_value /= sum.latency.len().max(1) as f64;
        Ok(sum)
    }

    /// Sends one query and returns its value.
    pub(crate) async fn query(&self) -> Result<f64> {
        let mut connection = self.connections.choose(&mut rand::rng()).context("no connection")?.clone();
        tokio::time::timeout(QUERY_TIMEOUT, value(&mut connection, self.request()?)).await?
    }

    fn request(&self) -> Result<Request<Empty<Bytes>>> {
        let WorkloadName { namespace, name } = WorkloadName::of(rand::rng().random_range(0..self.workloads));
        let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/concurrency");
        Ok(Request::get(format!("https://{NAME}{path}?labelSelector=service%3D{name}"))
            .header("x-remote-user", "system:serviceaccount:kube-system:horizontal-pod-autoscaler")
            .header("x-remote-group", "system:serviceaccounts")
            .header("x-remote-group", "system:authenticated")
            .header("accept", "application/json")
            .body(Empty::new())?)
    }
}

// === impl QueryResults ===

impl QueryResults {
    fn add(&mut self, latency: Duration, result: Result<f64>) {
        match result {
            Ok(value) => {
                self.latency.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_LATENCY));
                self.mean_value += value;
            }
            Err(error) => {
                self.failed += 1;
                self.last_error = Some(format!("{error:#}"));
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
    let milli = autoscaler::contract::quantity::parse_milli(value)?;
    Ok(milli as f64 / 1000.0)
}

fn config(cluster: &FakeCluster) -> Result<ClientConfig> {
    let ca = cluster.serving_ca().context("no serving certificate")?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&ca) {
        roots.add(certificate.map_err(|error| anyhow::anyhow!("{error}"))?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (certificate, key) = &cluster.front_proxy;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate.clone()], key.clone_key())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
