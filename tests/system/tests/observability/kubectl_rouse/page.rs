//! The page of `kubectl rouse ui` in Chromium: a wake appears on it, with its steps.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use browser::{Browser, checks};
use cli::args::UiArgs;
use cli::ui::Page;
use system_tests::cluster::installation::begin_exclusive;
use system_tests::traffic::load::{create_at_zero, send_one_request};
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::Workload;

/// A report of an activator, a decision and a poll of the page.
const SHOWN: Duration = Duration::from_secs(20);

#[tokio::test]
#[ignore = "needs a cluster with Rouse and Chromium: run make test-system"]
async fn wake_appears_on_the_page_without_reload() -> Result<()> {
    let namespace = begin_exclusive("page").await?;
    let workload = Workload::new("page");
    let url = create_at_zero(&workload, &namespace, POD_START).await?;
    let page = Page::bind(UiArgs { port: 0 }, &super::session(&namespace)).await?;
    let address = page.url().to_owned();
    let seen = async {
        let browser = Browser::start().await?;
        browser.open(&address).await?;
        browser.wait_for("document.querySelector('.badge')?.textContent === 'AtZero'", SHOWN).await?;
        browser.evaluate("window.wasNotReloaded = true").await?;
        let response = send_one_request(&url, &namespace).await?;
        browser.wait_for("document.querySelector('.badge').textContent === 'Active'", SHOWN).await?;
        browser.evaluate("location.hash = document.querySelector('.fleet tbody a').hash").await?;
        let steps = "document.querySelectorAll('.waterfall tbody tr').length > 5";
        browser.wait_for(steps, SHOWN).await?;
        let waterfall = browser.run("return document.querySelector('.waterfall').innerText").await?;
        let waterfall = waterfall.as_str().context("no waterfall")?.to_owned();
        println!("the response took {:.0} ms; the page shows:\n{waterfall}", response.ms);
        for step in ["Report sent", "Size written", "Pod created", "Pod started", "Request sent", "Answered"]
        {
            ensure!(waterfall.contains(step), "{step} is not in {waterfall}");
        }
        browser.wait_for("document.querySelector('.charts').dataset.samples > 0", SHOWN).await?;
        let events = browser.text("section:last-child").await?.unwrap_or_default();
        ensure!(events.contains("ScaledFromZero"), "{events}");
        ensure!(browser.evaluate("window.wasNotReloaded").await? == true, "the page was reloaded");
        checks::names(&browser).await?;
        checks::origin(&browser).await
    };
    tokio::select! {
        () = page.serve() => unreachable!("it serves until it is dropped"),
        seen = seen => seen?,
    }
    namespace.end().await
}
