//! Checks that hold for every page: contrast of texts, names of controls, no foreign resource.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::browser::Browser;

/// Texts with less contrast to their ground than WCAG 2.2 requires for level AA: 4.5, or 3 for
/// large ones. The ground is the nearest ancestor's with a color.
const LOW_CONTRAST: &str = r#"(() => {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = (color) => {
    const [r, g, b] = channels(color).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (channels(color)[3] !== 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const low = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let checked = 0;
  while (walker.nextNode() && checked < 20000) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest(".unseen, option")) continue;
    checked += 1;
    const style = getComputedStyle(node);
    const color = node instanceof SVGElement ? style.fill : style.color;
    const [one, other] = [luminance(color), luminance(ground(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) low.add(`${walker.currentNode.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return [checked, [...low].slice(0, 10)];
})()"#;

/// Roles that need a name.
const NAMED: [&str; 9] =
    ["button", "link", "slider", "searchbox", "combobox", "image", "img", "table", "heading"];

/// Checks the contrast of the texts, which are at least so many, in the present color scheme.
///
/// # Errors
/// When one is too low.
pub async fn contrast(browser: &Browser, texts: u64) -> Result<()> {
    let result = browser.evaluate(LOW_CONTRAST).await?;
    ensure!(result[0].as_u64().is_some_and(|checked| checked >= texts), "few texts were checked: {result}");
    ensure!(result[1] == json!([]), "texts with low contrast: {}", result[1]);
    Ok(())
}

/// Checks that controls, tables and pictures have names for screen readers.
///
/// # Errors
/// When one has none.
pub async fn names(browser: &Browser) -> Result<()> {
    let tree = browser.accessibility_tree().await?;
    let role = |node: &Value| node["role"]["value"].as_str().unwrap_or_default().to_owned();
    let shown = tree.iter().filter(|node| node["ignored"] == json!(false));
    let named: Vec<_> = shown.filter(|node| NAMED.contains(&role(node).as_str())).collect();
    ensure!(named.len() > 3, "few controls were checked: {}", named.len());
    for node in named {
        let name = node["name"]["value"].as_str().unwrap_or_default();
        ensure!(!name.trim().is_empty(), "a {} has no name: {node}", role(node));
    }
    Ok(())
}

/// Checks that nothing was loaded from another origin, and that the browser had no complaint.
///
/// # Errors
/// When something was.
pub async fn origin(browser: &Browser) -> Result<()> {
    let foreign = "performance.getEntriesByType('resource').map((e) => e.name).filter((n) => !n.startsWith(location.origin))";
    let foreign = browser.evaluate(foreign).await?;
    ensure!(foreign == json!([]), "resources of other origins: {foreign}");
    let complaints = browser.complaints().await?;
    ensure!(complaints.is_empty(), "{complaints:?}");
    Ok(())
}
