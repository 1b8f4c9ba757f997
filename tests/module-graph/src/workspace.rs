//! The crate roots of the workspace, as `cargo metadata` lists them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// One library, program, integration test or benchmark.
pub(crate) struct CrateRoot {
    pub(crate) package: String,
    /// Kind and name, such as `lib activator`.
    pub(crate) target: String,
    pub(crate) path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
    src_path: PathBuf,
}

/// Every crate root of the workspace, in cargo's order.
pub(crate) fn crate_roots() -> anyhow::Result<Vec<CrateRoot>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--locked", "--format-version", "1"])
        .output()
        .context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("parse cargo metadata")?;
    Ok(metadata.packages.into_iter().flat_map(roots).collect())
}

fn roots(package: Package) -> impl Iterator<Item = CrateRoot> {
    package.targets.into_iter().map(move |target| CrateRoot {
        package: package.name.clone(),
        target: format!("{} {}", target.kind.join(","), target.name),
        path: target.src_path,
    })
}
