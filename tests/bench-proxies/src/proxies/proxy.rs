//! Proxy: how one proxy is started in front of the backend, and the running process.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use bench_proxies::process::{Process, Program};

use super::bounds::Bounds;
use super::launch_site::LaunchSite;

/// How to start a proxy in front of the backend.
pub(crate) struct Proxy {
    /// Name in tables and on the command line.
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(super) environment: Vec<(&'static str, OsString)>,
    pub(super) version_flag: &'static str,
    /// Writes the configuration file, if the proxy has one, and returns the command line.
    pub(super) arguments: fn(&LaunchSite) -> Result<Vec<OsString>>,
    /// `None` for peers and baselines.
    pub(crate) bounds: Option<&'static Bounds>,
}

/// Concurrency limit of the soaked proxy.
pub(crate) const SOAKED_LIMIT: u32 = 100;

/// A proxy of ours with a limit of [`SOAKED_LIMIT`] and a short header timeout.
pub(crate) struct SoakedProxy {
    pub(crate) proxy: Proxy,
    /// Metric of requests in flight, if the proxy has one.
    pub(crate) in_flight: Option<&'static str>,
    /// Metric of queued requests.
    pub(crate) queued: &'static str,
}

/// A started proxy.
pub(crate) struct RunningProxy {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// Address of `/metrics`; only proxies of ours have it.
    pub(crate) metrics: SocketAddr,
}

// === impl Proxy ===

impl Proxy {
    /// A proxy of ours: a static binary with bounds.
    pub(super) fn ours(
        name: &'static str,
        path: &Path,
        arguments: fn(&LaunchSite) -> Result<Vec<OsString>>,
        bounds: &'static Bounds,
    ) -> Self {
        let (path, bounds) = (path.to_owned(), Some(bounds));
        Self { name, path, environment: Vec::new(), version_flag: "--version", arguments, bounds }
    }

    /// The same proxy of another version: with a name of its own and without bounds.
    pub(super) fn into_baseline(self, name: &'static str) -> Self {
        Self { name, bounds: None, ..self }
    }

    /// Starts the process and returns at once.
    ///
    /// # Errors
    /// When its directory cannot be written or the program cannot be run.
    pub(crate) fn start(&self, backend: SocketAddr, directory: &Path) -> Result<RunningProxy> {
        let site = LaunchSite::new(backend, directory.join(self.name))?;
        fs::create_dir_all(&site.directory)?;
        let program = Program {
            path: self.path.clone(),
            arguments: (self.arguments)(&site)?,
            environment: self.environment.clone(),
            log: site.directory.join("log"),
        };
        let [metrics, _] = site.spare;
        Ok(RunningProxy { process: Process::start(program)?, address: site.listen, metrics })
    }

    /// The first line of the program's version output that is not empty.
    ///
    /// # Errors
    /// When the program cannot be run.
    pub(crate) fn version(&self) -> Result<String> {
        let mut command = Command::new(&self.path);
        command.envs(self.environment.iter().cloned());
        let output = command.arg(self.version_flag).output();
        let output = output.with_context(|| format!("cannot run {}", self.path.display()))?;
        // nginx prints it to stderr.
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        Ok(printed.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned())
    }

    /// Size of the binary, in bytes.
    ///
    /// # Errors
    /// When the file does not exist.
    pub(crate) fn size(&self) -> Result<u64> {
        Ok(fs::metadata(&self.path).with_context(|| self.path.display().to_string())?.len())
    }
}
