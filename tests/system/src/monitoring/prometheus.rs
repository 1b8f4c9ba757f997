//! A Prometheus of its own, beside the tests.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use docs::monitoring::program;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::wait;

const EVALUATION_INTERVAL: &str = "2s";
/// Enough for a start on a loaded machine.
const START: Duration = Duration::from_secs(30);
/// Between two points of a range.
const STEP: Duration = Duration::from_secs(1);

/// A running Prometheus. It ends with this value, and its data with it.
#[derive(Debug)]
pub struct Prometheus {
    address: SocketAddr,
    folder: PathBuf,
    /// Unix time.
    started: Duration,
    _process: Child,
}

// === impl Prometheus ===

impl Prometheus {
    /// Starts it on a free port of loopback, and waits until it is ready.
    ///
    /// # Errors
    /// When there is no such program, and after the deadline.
    pub async fn start(scrape_configs: &Value, rules: &str) -> Result<Self> {
        let address = free_port()?;
        let folder = std::env::temp_dir().join(format!("rouse-prometheus-{}", address.port()));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("rules.yaml"), rules)?;
        let config = json!({
            "global": {"evaluation_interval": EVALUATION_INTERVAL},
            "rule_files": ["rules.yaml"],
            "scrape_configs": scrape_configs,
        });
        // JSON is YAML.
        std::fs::write(folder.join("prometheus.yaml"), config.to_string())?;
        let process = Command::new(program::path("prometheus")?)
            .arg("--config.file=prometheus.yaml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=warn")
            .current_dir(&folder)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let prometheus =
            Self { address, folder, started: component_base::clock::since_epoch(), _process: process };
        wait::until("Prometheus to be ready", START, || async {
            prometheus.get("/-/ready").await.map(|_| Some(()))
        })
        .await?;
        Ok(prometheus)
    }

    /// The folder of its configuration, below which it finds its targets.
    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// Whether a query returned a number at some moment since the start.
    ///
    /// # Errors
    /// When the query is invalid.
    pub async fn has_data(&self, query: &str) -> Result<bool> {
        let (start, end) = (self.started.as_secs_f64(), component_base::clock::since_epoch().as_secs_f64());
        let range = format!("start={start}&end={end}&step={}", STEP.as_secs());
        let path = format!("/api/v1/query_range?query={}&{range}", percent_encoded(query));
        let response = self.get_json(&path).await.with_context(|| query.to_owned())?;
        let series = response.pointer("/data/result").and_then(Value::as_array).context("no result")?;
        let points = series.iter().filter_map(|series| series.pointer("/values")?.as_array()).flatten();
        let mut values = points.filter_map(|point| point.pointer("/1")?.as_str());
        Ok(values.any(|value| value != "NaN"))
    }

    /// The number that a query returns now; `None` if it returns no series.
    ///
    /// # Errors
    /// When the query is invalid.
    pub async fn value(&self, query: &str) -> Result<Option<f64>> {
        let path = format!("/api/v1/query?query={}", percent_encoded(query));
        let response = self.get_json(&path).await.with_context(|| query.to_owned())?;
        let value = response.pointer("/data/result/0/value/1").and_then(Value::as_str);
        Ok(value.map(str::parse).transpose()?)
    }

    /// The alert rules that cannot be evaluated, with their errors.
    ///
    /// # Errors
    /// When there is no response.
    pub async fn failed_rules(&self) -> Result<Vec<String>> {
        let response = self.get_json("/api/v1/rules").await?;
        let groups = response.pointer("/data/groups").and_then(Value::as_array).context("no groups")?;
        let rules = groups.iter().filter_map(|group| group.pointer("/rules")?.as_array()).flatten();
        let failed = rules.filter(|rule| rule.pointer("/health").and_then(Value::as_str) != Some("ok"));
        Ok(failed.map(ToString::to_string).collect())
    }

    async fn get_json(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.get(path).await?)?)
    }

    async fn get(&self, path: &str) -> Result<Bytes> {
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let host = self.address.to_string();
        let request = Request::get(path).header("host", host).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // A file that is left is in the folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Prometheus does not print the port that it got, so it gets one that was free a moment ago.
fn free_port() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
