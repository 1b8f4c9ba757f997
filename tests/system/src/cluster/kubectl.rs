//! The program kubectl: the cluster tool's, or on another cluster the one in PATH.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// `kubectl proxy`, which ends with this value.
#[derive(Debug)]
pub struct ApiProxy {
    /// Where it serves the API, without authentication.
    pub address: SocketAddr,
    _process: Child,
}

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
/// When it fails, with what it printed. `kubectl diff` fails on a difference, and prints it as
/// output.
pub async fn run(arguments: &[&str]) -> Result<String> {
    let output = command()?.args(arguments).output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "kubectl {}: {error}{out}", arguments.join(" "));
    Ok(out)
}

fn command() -> Result<Command> {
    // Found by env in that PATH, not in the one of this process.
    let mut command = Command::new("env");
    command.arg("kubectl").env("PATH", path()?);
    Ok(command)
}

// === impl ApiProxy ===

impl ApiProxy {
    /// Serves the API of KUBECONFIG on a free port of loopback.
    ///
    /// # Errors
    /// When kubectl cannot be started.
    pub async fn start() -> Result<Self> {
        let mut process = command()?
            .args(["proxy", "--port=0"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("kubectl")?;
        let output = process.stdout.take().context("kubectl has no output")?;
        let line = BufReader::new(output).lines().next_line().await?.context("kubectl proxy ended")?;
        // Starting to serve on 127.0.0.1:PORT
        let address = line.rsplit(' ').next().unwrap_or_default().parse().context(line.clone())?;
        Ok(Self { address, _process: process })
    }
}
