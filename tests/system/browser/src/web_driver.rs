//! WebDriver: the protocol of ChromeDriver, over one connection pool on loopback.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const DRIVER: &str = "/usr/bin/chromedriver";
const BROWSER: &str = "/usr/bin/chromium";
/// As root there is no sandbox. The others keep Chromium from requests to the internet.
const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
];
/// Chromium's start on a loaded machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Attempts to start ChromeDriver with a port.
const STARTS: usize = 5;

/// One session. Chromium ends when it is dropped.
#[derive(Debug)]
pub(crate) struct WebDriver {
    base: String,
    client: Client<HttpConnector, Full<Bytes>>,
    driver: Child,
}

// === impl WebDriver ===

impl WebDriver {
    pub(crate) async fn start() -> Result<Self> {
        let (driver, port) = tokio::time::timeout(START_TIMEOUT, started_driver()).await??;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let mut session = Self { base: format!("http://127.0.0.1:{port}/session"), client, driver };
        let options = json!({"binary": BROWSER, "args": ARGUMENTS});
        let capabilities = json!({
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
        });
        let started = session.post("", json!({"capabilities": {"alwaysMatch": capabilities}}));
        let started =
            tokio::time::timeout(START_TIMEOUT, started).await.context("Chromium did not start")??;
        let id = started["sessionId"].as_str().context("no session")?;
        session.base = format!("{}/{id}", session.base);
        Ok(session)
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Value> {
        self.send(Method::POST, path, body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.send(Method::GET, path, String::new()).await
    }

    /// Executes a command of the DevTools protocol.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) -> Result<Value> {
        self.post("/goog/cdp/execute", json!({"cmd": command, "params": parameters})).await
    }

    async fn send(&self, method: Method, path: &str, body: String) -> Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("content-type", "application/json")
            .body(Full::from(body))?;
        let response = self.client.request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let mut body: Value = serde_json::from_slice(&body)?;
        let value = body["value"].take();
        ensure!(status.is_success(), "{path}: {}", value["message"]);
        Ok(value)
    }
}

impl Drop for WebDriver {
    fn drop(&mut self) {
        let id = self.driver.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        // It may have ended already.
        let _ = id.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// Starts ChromeDriver on a free port. It binds that port on `::1` and then on `127.0.0.1`, where
/// another socket may have it, and ends if so; the next start takes another port.
async fn started_driver() -> Result<(Child, u16)> {
    let mut starts = 1;
    loop {
        match start_driver().await {
            Err(_) if starts < STARTS => starts += 1,
            started => return started,
        }
    }
}

async fn start_driver() -> Result<(Child, u16)> {
    // A group of its own, so that Chromium's processes end with it.
    let mut driver = Command::new(DRIVER)
        .arg("--port=0")
        .env("TZ", "UTC")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {DRIVER}; make test-page installs it"))?;
    let output = driver.stdout.take().context("chromedriver has no output")?;
    let port = port(BufReader::new(output)).await?;
    Ok((driver, port))
}

/// The port in `ChromeDriver was started successfully on port 1234.`
async fn port(output: impl tokio::io::AsyncBufRead + Unpin) -> Result<u16> {
    let mut lines = output.lines();
    let mut last = String::new();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, port)) = line.split_once("successfully on port ") {
            return Ok(port.trim_end_matches('.').parse()?);
        }
        last = line;
    }
    bail!("chromedriver ended without a port: {last}")
}
