//! The built site: `make site`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Attributes that lead to a file.
const ATTRIBUTES: [&str; 3] = [" href=\"", " src=\"", " srcset=\""];
/// Fewest pages of a whole site.
const PAGES: usize = 60;

/// The HTML files below a folder.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            found.push(path);
        }
    }
    Ok(())
}

/// Each attribute with its value.
fn targets(html: &str) -> impl Iterator<Item = (&'static str, &str)> {
    ATTRIBUTES.into_iter().flat_map(move |attribute| {
        let values = html.split(attribute).skip(1);
        values.filter_map(move |rest| Some((attribute, rest.split('"').next()?)))
    })
}

/// Why a target is dead; `None` if it is not.
fn fault(page: &Path, html: &str, attribute: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return (attribute != " href=\"").then_some("loads from elsewhere");
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = page.parent()?.join(file);
    if !file.is_empty() && !path.exists() {
        return Some("leads to no file");
    }
    let has = |html: &str| html.contains(&format!("id=\"{anchor}\""));
    let is_found = anchor.is_empty()
        || if file.is_empty() {
            has(html)
        } else {
            std::fs::read_to_string(&path).is_ok_and(|html| has(&html))
        };
    (!is_found).then_some("leads to no anchor")
}

#[test]
#[ignore = "needs the built site: run make site"]
fn pages_have_no_dead_link_and_load_nothing_from_elsewhere() {
    let site = PathBuf::from(std::env::var_os("SITE").unwrap()).join("book");
    let mut files = Vec::new();
    pages(&site, &mut files).unwrap();
    assert!(files.len() >= PAGES, "{} pages", files.len());
    let mut faults = BTreeSet::new();
    for page in &files {
        let html = std::fs::read_to_string(page).unwrap();
        for (attribute, target) in targets(&html) {
            if let Some(fault) = fault(page, &html, attribute, target) {
                faults.insert(format!("{}: {target} {fault}", page.display()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
}
