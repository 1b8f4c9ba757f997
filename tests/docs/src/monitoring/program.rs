//! The programs of Prometheus: from PATH, or Debian's, unpacked into the cache.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Folder of the cache, and name of the package.
const PACKAGE: &str = "prometheus";
const PROGRAMS: [&str; 2] = ["usr/bin/prometheus", "usr/bin/promtool"];

/// The path of `prometheus` or `promtool`.
///
/// # Errors
/// When it is not in PATH, and apt cannot download the package.
pub fn path(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(found) = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|p| p.exists())
    {
        return Ok(found);
    }
    let cache = match std::env::var_os("ROUSE_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache/rouse"),
    };
    let unpacked = bench_proxies::debian::ensure(&cache.join(PACKAGE), &[PACKAGE], &PROGRAMS)?;
    Ok(unpacked.root.join("usr/bin").join(program))
}
