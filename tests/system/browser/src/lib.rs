//! A real Chromium for tests of pages, headless, driven by ChromeDriver over WebDriver.
//!
//! ```text
//!  test ─► Browser ─► WebDriver ── HTTP ──► chromedriver ─► chromium
//! ```
//!
//! The tests that use it are ignored by default: `make test-page` and `make test-system` install
//! Debian's packages `chromium` and `chromium-driver` first.

#![allow(clippy::indexing_slicing, reason = "only JSON is indexed, which does not panic when it is read")]

mod browser;
pub mod checks;
mod web_driver;

pub use browser::{Browser, ColorScheme, keys};
