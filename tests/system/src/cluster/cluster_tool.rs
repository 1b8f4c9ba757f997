//! Commands of the cluster tool, for tests that need one of its clusters.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The cluster tool, without arguments. It acts on the cluster of `CLUSTER_NAME`.
///
/// # Errors
/// Without `CLUSTER`, which the Makefile sets.
pub fn cluster_tool() -> Result<Command> {
    let tool = std::env::var_os("CLUSTER").context("CLUSTER is not set; run the test by make")?;
    Ok(Command::new(tool))
}

/// Loads a tarball of an image on all nodes.
///
/// # Errors
/// When the tool fails, with what it printed.
pub fn load_image(file: &str) -> Result<()> {
    let loaded = cluster_tool()?.args(["load", file]).output()?;
    ensure!(loaded.status.success(), "load {file}: {}", String::from_utf8_lossy(&loaded.stderr));
    Ok(())
}
