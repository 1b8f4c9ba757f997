//! A program of ours: started with its log in a file, looked at in `/proc`, and ended by its own id.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Time to end by itself.
const TERMINATION: Duration = Duration::from_secs(10);
/// The kernel's clock ticks in a second, as `/proc` counts them.
const TICKS: f64 = 100.0;

/// A started program. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    id: u32,
}

// === impl Process ===

impl Process {
    /// # Errors
    /// When the program cannot be run.
    pub(crate) fn start(program: &Path, arguments: &[String], kubeconfig: &Path, log: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let child = Command::new(program)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let id = child.id().context("it ended at once")?;
        Ok(Self { child, id })
    }

    /// Most memory that was resident at a time, in bytes.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn most_memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kibibytes << 10)
    }

    /// CPU time used so far, of all threads, in the kernel and out of it.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id))?;
        // The name, in parentheses, may have spaces in it.
        let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Ok(Duration::from_secs_f64(ticks.sum::<Result<f64, _>>()? / TICKS))
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When it does not end in time.
    pub(crate) async fn end(mut self) -> Result<()> {
        Command::new("kill").args(["-TERM", &self.id.to_string()]).status().await?;
        timeout(TERMINATION, self.child.wait()).await.context("it does not end")??;
        Ok(())
    }
}
