//! The page of `kubectl rouse ui` in Chromium, with a thousand workloads of an API in memory, and
//! the activator's waiting page: `make test-page`.
//!
//! With SCREENSHOTS set to a folder, it writes the pictures of the documents there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod fleet;
mod picture;
mod waiting_page;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use browser::{Browser, ColorScheme, checks, keys};
use cli::args::UiArgs;
use cli::connection::Session;
use cli::ui::Page;
use fake_api::FakeApi;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use fleet::{NOW, WORKLOADS, put_dozen, put_fleet, put_state};
use picture::picture;

/// For what takes milliseconds on a quiet machine.
const SOON: Duration = Duration::from_secs(20);
/// Texts that a page has at least.
const TEXTS: u64 = 20;
/// Longest that the page may stand still while it is updated, in milliseconds: a moment on a
/// machine on which other tests run.
const MAX_FREEZE_MS: f64 = 400.0;

/// A page of these workloads in a browser.
struct OpenPage {
    browser: Browser,
    url: String,
    _serving: AbortOnDropHandle<()>,
}

impl OpenPage {
    async fn of(api: &FakeApi) -> Result<Self> {
        let session = Session {
            client: api.client(),
            namespace: "default".to_owned(),
            only_namespace: None,
            system_namespace: "rouse-system".to_owned(),
        };
        let page = Page::bind(UiArgs { port: 0 }, &session).await?;
        let url = page.url().to_owned();
        let _serving = AbortOnDropHandle::new(tokio::spawn(page.serve()));
        let browser = Browser::start().await?;
        browser.resize(1280, 760).await?;
        browser.open(&url).await?;
        Ok(Self { browser, url, _serving })
    }

    async fn rows(&self, count: usize) -> Result<()> {
        let rows = format!("document.querySelectorAll('.fleet tbody tr').length === {count}");
        self.browser.wait_for(&rows, SOON).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: run make test-page"]
async fn thousand_workloads_are_shown_filtered_sorted_and_updated_without_reload() -> Result<()> {
    let api = FakeApi::default();
    put_fleet(&api);
    let (begin, page) = (Instant::now(), OpenPage::of(&api).await?);
    page.rows(WORKLOADS).await?;
    println!("{WORKLOADS} workloads shown {:?} after the start of Chromium", begin.elapsed());
    let browser = &page.browser;
    browser.evaluate("window.wasNotReloaded = true").await?;
    for scheme in [ColorScheme::Light, ColorScheme::Dark] {
        browser.prefer(scheme).await?;
        checks::contrast(browser, TEXTS).await?;
    }
    checks::names(browser).await?;

    let saved = browser.text(".saved").await?.unwrap_or_default();
    ensure!(
        saved.ends_with(" at all times: 80,059 pod-hours, 20,014.7 CPU-hours, 40,029.5 GiB-hours"),
        "{saved}"
    );

    // What needs attention is first, and a fact filters.
    let first = "[...document.querySelectorAll('.fleet tbody th')].slice(0, 2).map((cell) => cell.textContent).join()";
    let first = browser.evaluate(first).await?;
    ensure!(first.as_str().is_some_and(|first| first.starts_with("checkout/web,")), "first is {first}");
    browser.focus(".summary li:nth-child(2) button").await?;
    browser.press(keys::ENTER).await?;
    page.rows(1).await?;
    let pressed = "document.querySelector('.summary [aria-pressed=true]').textContent";
    ensure!(browser.evaluate(pressed).await? == json!("1 with problems"), "another button is pressed");
    browser.press(keys::ENTER).await?;
    page.rows(WORKLOADS).await?;

    // Sorted and filtered by keyboard.
    browser.focus(".fleet thead th:nth-child(5) button").await?;
    browser.press(keys::ENTER).await?;
    let loads = browser.run("return [...document.querySelectorAll('.fleet tbody tr td:nth-child(5)')].slice(0, 50).map((cell) => parseFloat(cell.textContent.replace(',', '')))").await?;
    let loads: Vec<f64> = serde_json::from_value(loads)?;
    ensure!(loads.is_sorted_by(|a, b| a >= b) && loads[0] > 0.0, "not sorted by load: {loads:?}");
    ensure!(
        browser.evaluate("document.querySelector('th:nth-child(5)').ariaSort").await? == json!("descending"),
        "no aria-sort"
    );
    browser.focus("#filter").await?;
    browser.press("billing/web").await?;
    page.rows(1).await?;

    // One change, announced and shown without a reload.
    put_state(&api, "billing", "web", json!({"phase": "Waking", "reason": "Activating", "replicas": 1}));
    browser.wait_for("document.querySelector('.badge').textContent === 'Waking'", SOON).await?;
    browser
        .wait_for("document.querySelector('#announcer').textContent === 'billing/web: Waking'", SOON)
        .await?;
    browser.evaluate("(() => { const f = document.querySelector('#filter'); f.value = ''; f.dispatchEvent(new Event('input')); })()").await?;
    page.rows(WORKLOADS).await?;

    let freeze = "let last = performance.now(), longest = 0; const end = last + 5000; while (last < end) { await new Promise(requestAnimationFrame); const now = performance.now(); longest = Math.max(longest, now - last); last = now; } return longest";
    let freeze = browser.run(freeze).await?.as_f64().context("no number")?;
    println!("longest standstill in five seconds of updates: {freeze:.0} ms");
    ensure!(freeze < MAX_FREEZE_MS, "the page stood still for {freeze:.0} ms");
    ensure!(browser.evaluate("window.wasNotReloaded").await? == json!(true), "the page was reloaded");
    checks::origin(browser).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium: run make test-page"]
async fn workload_shows_its_hour_wakes_and_fixes_by_keyboard() -> Result<()> {
    let api = FakeApi::default();
    put_dozen(&api);
    let page = OpenPage::of(&api).await?;
    page.rows(12).await?;
    let browser = &page.browser;
    // One clock for the page and its charts.
    browser.evaluate(&format!("void (Date.now = () => {NOW})")).await?;
    browser.wait_for("document.querySelector('#freshness').textContent.includes(':00:00')", SOON).await?;
    picture(browser, "page-fleet", (1280, 700)).await?;
    browser.focus("a[href='#/catalog/web']").await?;
    browser.press(keys::ENTER).await?;
    browser.wait_for("document.querySelector('.charts')?.dataset.samples > 100", SOON).await?;
    ensure!(
        browser.evaluate("document.activeElement.tagName").await? == json!("H1"),
        "the heading has no focus"
    );
    picture(browser, "page-workload", (1280, 1370)).await?;
    for scheme in [ColorScheme::Dark, ColorScheme::Light] {
        browser.prefer(scheme).await?;
        checks::contrast(browser, TEXTS).await?;
    }
    checks::names(browser).await?;

    let facts = browser.text(".facts").await?.unwrap_or_default();
    ensure!(facts.contains("121 pod-hours, 30.2 CPU-hours, 60.5 GiB-hours"), "{facts}");
    let rests = "[...document.querySelectorAll('section')].map((it) => it.textContent).find((it) => it.startsWith('What the learned target rests on'))";
    let rests = browser.evaluate(rests).await?;
    for part in ["43 at a time, which binds", "Not known: what memory allows", "66 ms"] {
        ensure!(rests.as_str().is_some_and(|rests| rests.contains(part)), "{part} is not in {rests}");
    }
    let command = browser.text(".command code").await?.unwrap_or_default();
    ensure!(command == "kubectl get podautoscaler web --namespace catalog --output yaml", "{command}");
    ensure!(
        browser.evaluate("document.querySelectorAll('.charts .area').length").await? == json!(1),
        "no area of ready pods"
    );
    let summary = browser.text("#chart-0-summary").await?.context("no text of the chart")?;
    ensure!(summary.contains("load: from 0 to") && summary.contains("3 wakes"), "{summary}");
    let newest = browser.text("#readout").await?;
    browser.focus(".cursor").await?;
    browser.press(keys::LEFT).await?;
    ensure!(browser.text("#readout").await? != newest, "the arrow did not move the cursor");
    let value = browser.evaluate("document.querySelector('.cursor').getAttribute('aria-valuetext')").await?;
    ensure!(value.as_str() == browser.text("#readout").await?.as_deref(), "{value}");
    let steps = browser.run("return [...document.querySelectorAll('.waterfall')][0].innerText").await?;
    let steps = steps.as_str().unwrap_or_default().to_owned();
    for step in [
        "Report sent",
        "Size written",
        "Pod created",
        "Pod scheduled",
        "Pod started",
        "Probe answered",
        "Answered",
    ] {
        ensure!(steps.contains(step), "{step} is not in {steps}");
    }
    browser.evaluate("document.querySelector('.values').open = true").await?;
    browser.wait_for("document.querySelectorAll('.values tbody tr').length > 100", SOON).await?;

    browser.open(&format!("{}#/checkout/web", page.url)).await?;
    browser
        .wait_for("document.querySelector('.problems')?.textContent.includes('Fix: ') === true", SOON)
        .await?;
    // Small screens do not scroll sideways.
    browser.resize(360, 800).await?;
    let width = browser.evaluate("document.documentElement.scrollWidth").await?;
    ensure!(width.as_u64().is_some_and(|width| width <= 360), "the page is {width} wide on a screen of 360");
    checks::origin(browser).await
}
