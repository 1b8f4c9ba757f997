//! Commands of the cluster tool, for tests that need a cluster of it.

use std::process::Command;

use anyhow::{Context, Result};

/// The cluster tool, without arguments. It acts on the cluster of `CLUSTER_NAME`.
///
/// # Errors
/// Without `CLUSTER`, which the Makefile sets.
pub fn cluster_tool() -> Result<Command> {
    let tool = std::env::var_os("CLUSTER").context("CLUSTER is not set; run the test by make")?;
    Ok(Command::new(tool))
}
