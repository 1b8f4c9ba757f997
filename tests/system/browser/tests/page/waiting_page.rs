//! The waiting page in Chromium: a real activator on loopback, with a workload that has no pod at
//! first.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use activator::app::{App, Sources};
use activator::args::Limits;
use activator::workloads::file;
use anyhow::{Context, Result, ensure};
use browser::{Browser, ColorScheme, checks};
use bytes::Bytes;
use component_base::readiness::Readiness;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use prometheus::Registry;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::SOON;
use super::picture::picture;

const PATH: &str = "/orders?page=2#last";
/// Shorter than by default, for the test's sake.
const AFTER: Duration = Duration::from_millis(100);

/// An activator with one workload without a sidecar, `shop/web`.
struct Activator {
    path: PathBuf,
    port: u16,
    app_port: u16,
    _running: AbortOnDropHandle<()>,
}

/// The app of the workload, and the requests that it got.
struct TestApp {
    requests: Arc<AtomicU32>,
    last_path: Arc<Mutex<String>>,
    _serving: AbortOnDropHandle<()>,
}

impl Activator {
    async fn start() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("waiting-page-{}.yaml", std::process::id()));
        let (port, app_port) = (free_port().await?, free_port().await?);
        write(&path, port, app_port, "")?;
        let limits = Limits { waiting_page_after: AFTER, ..Limits::default() };
        let registry = Registry::new();
        let app = App::new("activator".to_owned(), limits, &[], None, &registry)?;
        let readiness = Readiness::default();
        let source = file::follow(&path, readiness.latch("workloads file"))?;
        let sources = Sources {
            changes: source.changes,
            adapters: source.adapters,
            zero_scalers: source.zero_scalers,
            fallback_waker: None,
            publication: None,
            namespaces: watch::Sender::default(),
            slot_exchange: None,
        };
        let running = tokio::spawn(async move {
            app.run(sources, &readiness, CancellationToken::new()).await;
        });
        Ok(Self { path, port, app_port, _running: AbortOnDropHandle::new(running) })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// The app starts, and its pod is seen.
    async fn app_starts(&self) -> Result<TestApp> {
        let app = TestApp::start(self.app_port).await?;
        write(&self.path, self.port, self.app_port, "{ip: 127.0.0.1}")?;
        Ok(app)
    }
}

impl Drop for Activator {
    fn drop(&mut self) {
        // Only in the folder of temporary files.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl TestApp {
    async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let (requests, last_path) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(String::new())));
        let (count, path) = (requests.clone(), last_path.clone());
        let serving = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (count, path) = (count.clone(), path.clone());
                let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                    if request.uri().path() != "/favicon.ico" {
                        count.fetch_add(1, Ordering::Relaxed);
                        *path.lock().unwrap() = request.uri().to_string();
                    }
                    async { Ok::<_, Infallible>(page()) }
                });
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(connection), answer).await;
                });
            }
        });
        Ok(Self { requests, last_path, _serving: AbortOnDropHandle::new(serving) })
    }
}

fn page() -> Response<Full<Bytes>> {
    let html = "<!doctype html><html lang=en><title>Orders</title><h1 id=orders>Your orders</h1>";
    Response::builder().header("content-type", "text/html").body(Full::from(html)).unwrap()
}

/// Replaces the file at once, so that the activator never reads half a file.
fn write(path: &Path, port: u16, app_port: u16, pods: &str) -> Result<()> {
    let text = format!(
        "workloads:\n- name: shop/web\n  sidecar: false\n  waitingPage: true\n  \
         ports: [{{listen: {port}, pod: {app_port}}}]\n  pods: [{pods}]\n"
    );
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    Ok(std::fs::rename(new, path)?)
}

async fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?.port())
}

async fn open(browser: &Browser, url: &str) -> Result<()> {
    browser.resize(640, 400).await?;
    let deadline = tokio::time::Instant::now() + SOON;
    // The activator may not listen yet.
    while let Err(error) = browser.open(url).await {
        ensure!(tokio::time::Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: run make test-page"]
async fn browser_at_zero_shows_the_waiting_page_and_then_the_app_at_the_same_url() -> Result<()> {
    let activator = Activator::start().await?;
    let browser = Browser::start().await?;
    open(&browser, &activator.url()).await?;
    browser.wait_for("document.title === 'web is starting'", SOON).await?;
    ensure!(browser.evaluate("location.href").await? == json!(activator.url()), "it was redirected");
    ensure!(browser.evaluate("document.documentElement.lang").await? == json!("en"), "no language");
    let tree = browser.accessibility_tree().await?;
    let has = |role: &str| tree.iter().any(|node| node["role"]["value"] == json!(role));
    ensure!(has("status") && has("main") && has("heading"), "no status, main or heading: {tree:?}");
    for scheme in [ColorScheme::Light, ColorScheme::Dark] {
        browser.prefer(scheme).await?;
        checks::contrast(&browser, 2).await?;
    }
    let ground = "getComputedStyle(document.body).backgroundColor";
    let dark = browser.evaluate(ground).await?;
    browser.prefer(ColorScheme::Light).await?;
    ensure!(browser.evaluate(ground).await? != dark, "it does not follow the color scheme");
    picture(&browser, "waiting-page", (640, 260)).await?;
    browser.resize(320, 480).await?;
    let width = browser.evaluate("document.documentElement.scrollWidth").await?;
    ensure!(width.as_u64().is_some_and(|width| width <= 320), "the page is {width} wide on a screen of 320");
    let complaints = browser.complaints().await?;
    let of_policy: Vec<_> =
        complaints.iter().filter(|text| text.contains("Content Security Policy")).collect();
    ensure!(of_policy.is_empty(), "{of_policy:?}");

    let app = activator.app_starts().await?;
    browser.wait_for("document.title === 'Orders'", SOON).await?;
    ensure!(browser.text("#orders").await?.as_deref() == Some("Your orders"), "not the app's page");
    ensure!(browser.evaluate("location.href").await? == json!(activator.url()), "another URL");
    ensure!(app.requests.load(Ordering::Relaxed) == 1, "the app got the request more than once");
    let path = app.last_path.lock().unwrap().clone();
    ensure!(path == "/orders?page=2", "{path}");
    let entries = browser.evaluate("history.length").await?;
    ensure!(entries.as_u64().context("no number")? <= 2, "the page is in the history: {entries}");
    Ok(())
}
