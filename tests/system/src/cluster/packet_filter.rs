//! Drops or rejects packets inside of the cluster's network namespace, by nft.
//!
//! All packets between pods of the first node, and between nodes, pass the hook `forward`. Those
//! between two pods of another node do not: it has a network namespace of its own.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::cluster::cluster_tool::cluster_tool;

/// A table of nft with one chain, until it is dropped.
pub struct PacketFilter(String);

// === impl PacketFilter ===

impl PacketFilter {
    /// Adds rules before all others: before connection tracking, too.
    ///
    /// # Errors
    /// When the cluster is not of the cluster tool, or nft fails.
    pub fn add(table: &str, hook: &str, rules: &str) -> Result<Self> {
        run(&format!(
            "nft 'table {table} {{ chain {hook} {{ type filter hook {hook} priority -300; {rules}; }}; }}'"
        ))?;
        Ok(Self(format!("nft delete table {table}")))
    }
}

impl Drop for PacketFilter {
    fn drop(&mut self) {
        if let Err(error) = run(&self.0) {
            println!("  the rules stay: {error:#}");
        }
    }
}

/// Runs a script in the cluster's network namespace.
///
/// # Errors
/// When the cluster is not of the cluster tool, or the script fails.
pub fn run(script: &str) -> Result<()> {
    let output = in_cluster()?.args(["sh", "-ec", script]).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{script}: {}", error.trim());
    Ok(())
}

/// A command in the cluster's network namespace, which takes the program and its arguments.
///
/// # Errors
/// When the cluster is not of the cluster tool.
pub fn in_cluster() -> Result<Command> {
    let mut command = cluster_tool()?;
    command.args(["exec", "--"]);
    Ok(command)
}
