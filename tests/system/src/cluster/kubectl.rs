//! kubectl on the cluster of KUBECONFIG: the one of the cluster tool where that tool is used.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// PATH with the kubectl of the cluster tool first, where that tool is used.
///
/// # Errors
/// When the cluster tool prints no path, because its cluster does not run.
pub fn path() -> Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let Ok(cluster) = std::env::var("CLUSTER") else { return Ok(path) };
    let output = std::process::Command::new(&cluster).arg("kubectl-path").output().context(cluster)?;
    let kubectl = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let folder = kubectl.parent().context("the cluster tool printed no path of kubectl")?;
    Ok(format!("{}:{path}", folder.display()))
}

/// Runs kubectl and returns its output.
///
/// # Errors
/// When it fails, with what it printed.
pub async fn run(arguments: &[&str]) -> Result<String> {
    // Found by env in that PATH, not in the one of this process.
    let output = Command::new("env").arg("kubectl").args(arguments).env("PATH", path()?).output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "kubectl {}: {}", arguments.join(" "), text(&output.stderr));
    Ok(text(&output.stdout))
}
