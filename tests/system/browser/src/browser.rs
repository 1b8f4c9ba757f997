//! Browser: what a test does with a page, and what it reads from the page.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::web_driver::WebDriver;

/// Wait between two looks at a condition.
const INTERVAL: Duration = Duration::from_millis(100);

/// A browser with one window.
#[derive(Debug)]
pub struct Browser {
    driver: WebDriver,
}

/// The user's preferred colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark text on a light ground.
    Light,
    /// Light text on a dark ground.
    Dark,
}

// === impl Browser ===

impl Browser {
    /// Starts Chromium.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub async fn start() -> Result<Self> {
        Ok(Self { driver: WebDriver::start().await? })
    }

    /// Loads a page.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.driver.post("/url", json!({"url": url})).await.map(drop)
    }

    /// The value of an expression in the page.
    ///
    /// # Errors
    /// When it throws.
    pub async fn evaluate(&self, expression: &str) -> Result<Value> {
        let script = format!("return ({expression});");
        self.driver.post("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// The result of the body of an asynchronous function in the page.
    ///
    /// # Errors
    /// When it throws.
    pub async fn run(&self, body: &str) -> Result<Value> {
        let script = format!("return (async () => {{ {body} }})();");
        self.driver.post("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// The text of the first element that matches a CSS selector; `None` if there is none.
    ///
    /// # Errors
    /// When the selector is invalid.
    pub async fn text(&self, selector: &str) -> Result<Option<String>> {
        let value =
            self.evaluate(&format!("document.querySelector({})?.textContent", json!(selector))).await?;
        Ok(value.as_str().map(str::to_owned))
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// When it is not within `timeout`; the error has the page's text.
    pub async fn wait_for(&self, expression: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        while self.evaluate(expression).await? != json!(true) {
            if Instant::now() > deadline {
                let text = self.evaluate("document.body.innerText.slice(0, 4000)").await?;
                bail!(
                    "not within {timeout:?}: {expression}; the page has: {}",
                    text.as_str().unwrap_or_default()
                );
            }
            tokio::time::sleep(INTERVAL).await;
        }
        Ok(())
    }

    /// Moves the focus to the first element that matches.
    ///
    /// # Errors
    /// When it does not take the focus.
    pub async fn focus(&self, selector: &str) -> Result<()> {
        let focus = format!(
            "(() => {{ const e = document.querySelector({}); e?.focus(); return e && document.activeElement === e; }})()",
            json!(selector)
        );
        ensure!(self.evaluate(&focus).await? == json!(true), "{selector} takes no focus");
        Ok(())
    }

    /// Presses and releases keys, each one character; see the constants in [`keys`].
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn press(&self, keys: &str) -> Result<()> {
        let key =
            |key: char| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let actions: Vec<_> = keys.chars().flat_map(key).collect();
        let source = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.driver.post("/actions", json!({"actions": [source]})).await.map(drop)
    }

    /// Sets the size of the window's content, in CSS pixels.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.driver.devtools("Emulation.setDeviceMetricsOverride", size).await.map(drop)
    }

    /// Sets the preferred colors.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn prefer(&self, scheme: ColorScheme) -> Result<()> {
        let value = match scheme {
            ColorScheme::Light => "light",
            ColorScheme::Dark => "dark",
        };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.driver.devtools("Emulation.setEmulatedMedia", media).await.map(drop)
    }

    /// The accessibility tree, as a screen reader gets it.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn accessibility_tree(&self) -> Result<Vec<Value>> {
        let mut tree = self.driver.devtools("Accessibility.getFullAXTree", json!({})).await?;
        serde_json::from_value(tree["nodes"].take()).context("no accessibility tree")
    }

    /// Errors and warnings of the page since the last call: of scripts, of the network, and of its
    /// Content-Security-Policy.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn complaints(&self) -> Result<Vec<String>> {
        let log = self.driver.post("/se/log", json!({"type": "browser"})).await?;
        let severe = |entry: &Value| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING"));
        let entries = log.as_array().into_iter().flatten().filter(|entry| severe(entry));
        Ok(entries.map(|entry| entry["message"].to_string()).collect())
    }

    /// Writes a picture of the window's content as PNG.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn screenshot(&self, file: &Path) -> Result<()> {
        let encoded = self.driver.get("/screenshot").await?;
        let png = STANDARD.decode(encoded.as_str().context("no picture")?)?;
        std::fs::write(file, png).with_context(|| file.display().to_string())
    }
}

/// Keys without a character, as WebDriver names them.
pub mod keys {
    pub const ENTER: &str = "\u{e007}";
    /// The arrow to the left.
    pub const LEFT: &str = "\u{e012}";
    pub const TAB: &str = "\u{e004}";
}
