//! Pictures of the documents, which tests take if SCREENSHOTS is a folder.

use std::path::PathBuf;

use anyhow::Result;
use browser::{Browser, ColorScheme};

/// Writes two pictures of this size, light and dark, if they are wanted.
pub(crate) async fn picture(browser: &Browser, name: &str, (width, height): (u32, u32)) -> Result<()> {
    let Some(folder) = std::env::var_os("SCREENSHOTS").map(PathBuf::from) else { return Ok(()) };
    browser.resize(width, height).await?;
    for (scheme, suffix) in [(ColorScheme::Dark, "dark"), (ColorScheme::Light, "light")] {
        browser.prefer(scheme).await?;
        // The charts follow the size with the next frames.
        browser.run("await new Promise((done) => setTimeout(done, 300))").await?;
        browser.screenshot(&folder.join(format!("{name}-{suffix}.png"))).await?;
    }
    Ok(())
}
