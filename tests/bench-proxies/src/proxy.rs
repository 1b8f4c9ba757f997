//! The proxies that are compared: one file each says how it is started and what it is held to.
//!
//! To add one, describe it in a file of its own and name it in [`all`]; everything else follows.

mod activator;
mod bounds;
mod haproxy;
mod nginx;
mod queue_proxy;
mod site;

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use bench_proxies::debian::Unpacked;

use crate::process::{Process, Program};

pub(crate) use self::bounds::Bounds;
pub(crate) use self::nginx::NAME as REFERENCE;
pub(crate) use self::site::Site;

/// The peers' packages, and their programs in them.
pub(crate) const PACKAGES: [&str; 2] = ["nginx", "haproxy"];
pub(crate) const PROGRAMS: [&str; 2] = [nginx::PROGRAM, haproxy::PROGRAM];

/// How to start a proxy in front of the backend.
pub(crate) struct Proxy {
    /// What it is called in tables and on the command line.
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    version_flag: &'static str,
    /// Writes its configuration, if it has any, and gives the command line.
    arguments: fn(&Site) -> Result<Vec<OsString>>,
    /// What it must reach; peers are held to nothing.
    pub(crate) bounds: Option<&'static Bounds>,
}

/// The app's requests at a time in a soak.
pub(crate) const SOAKED_LIMIT: u32 = 100;

/// A proxy of ours with a limit of [`SOAKED_LIMIT`], and short of patience.
pub(crate) struct Soaked {
    pub(crate) proxy: Proxy,
    /// Its metric of requests that have not ended, if it has one.
    pub(crate) in_flight: Option<&'static str>,
    /// Its metric of those that wait.
    pub(crate) queued: &'static str,
}

/// A proxy that takes connections.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// Where a proxy of ours tells what it does.
    pub(crate) stats: SocketAddr,
}

/// Every proxy, the reference first.
pub(crate) fn all(peers: &Unpacked, queue_proxy: &Path, activator: Option<&Path>) -> Vec<Proxy> {
    let mut all = vec![
        nginx::proxy(peers),
        haproxy::proxy(peers),
        queue_proxy::unlimited(queue_proxy),
        queue_proxy::limited(queue_proxy),
    ];
    all.extend(activator.map(activator::proxy));
    all
}

/// The one that is soaked: the first that is there.
pub(crate) fn soaked(queue_proxy: Option<&Path>, activator: Option<&Path>) -> Option<Soaked> {
    queue_proxy.map(queue_proxy::soaked).or_else(|| activator.map(activator::soaked))
}

// === impl Proxy ===

impl Proxy {
    /// One of ours: static, and held to bounds.
    fn ours(
        name: &'static str,
        path: &Path,
        arguments: fn(&Site) -> Result<Vec<OsString>>,
        bounds: &'static Bounds,
    ) -> Self {
        let (path, bounds) = (path.to_owned(), Some(bounds));
        Self { name, path, environment: Vec::new(), version_flag: "--version", arguments, bounds }
    }

    /// Starts the process and returns at once.
    ///
    /// # Errors
    /// When its directory cannot be written or the program cannot be run.
    pub(crate) fn start(&self, backend: SocketAddr, directory: &Path) -> Result<Running> {
        let site = Site::new(backend, directory.join(self.name))?;
        fs::create_dir_all(&site.directory)?;
        let program = Program {
            path: self.path.clone(),
            arguments: (self.arguments)(&site)?,
            environment: self.environment.clone(),
            log: site.directory.join("log"),
        };
        let [stats, _] = site.spare;
        Ok(Running { process: Process::start(program)?, address: site.listen, stats })
    }

    /// The first line of what the program says of its version.
    ///
    /// # Errors
    /// When it cannot be run.
    pub(crate) fn version(&self) -> Result<String> {
        let mut command = Command::new(&self.path);
        command.envs(self.environment.iter().cloned());
        let output = command.arg(self.version_flag).output();
        let output = output.with_context(|| format!("cannot run {}", self.path.display()))?;
        // nginx prints it as an error.
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned())
    }

    /// Bytes of its binary.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn size(&self) -> Result<u64> {
        Ok(fs::metadata(&self.path).with_context(|| self.path.display().to_string())?.len())
    }
}
