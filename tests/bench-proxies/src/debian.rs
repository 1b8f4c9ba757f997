//! nginx and haproxy, as Debian builds them: downloaded with what they need beyond this system, and unpacked into the cache.
//!
//! Nothing is installed, so no service starts and the system's own nginx or haproxy, if any, is neither used nor touched. What
//! is in the cache stays until its directory is removed; each run prints the versions.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

const PACKAGES: [&str; 2] = ["nginx", "haproxy"];
/// Programs of those packages.
const NGINX: &str = "usr/sbin/nginx";
const HAPROXY: &str = "usr/sbin/haproxy";
/// Places of shared libraries in packages.
const LIBRARY_ROOTS: [&str; 2] = ["lib", "usr/lib"];

/// Where the unpacked programs are.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) nginx: PathBuf,
    pub(crate) haproxy: PathBuf,
    /// For `LD_LIBRARY_PATH`.
    pub(crate) libraries: OsString,
}

/// Unpacks both under `cache`, unless they are there.
///
/// # Errors
/// When apt cannot download them.
pub(crate) fn ensure(cache: &Path) -> Result<Peers> {
    let (archives, root) = (cache.join("archives"), cache.join("root"));
    if !(root.join(NGINX).exists() && root.join(HAPROXY).exists()) {
        eprintln!("downloading Debian's {} to {}", PACKAGES.join(" and "), cache.display());
        download(&archives)?;
        unpack(&archives, &root)?;
    }
    let peers = Peers { nginx: root.join(NGINX), haproxy: root.join(HAPROXY), libraries: libraries(&root)? };
    ensure!(peers.nginx.exists() && peers.haproxy.exists(), "the packages have no {NGINX} or {HAPROXY}");
    Ok(peers)
}

fn download(archives: &Path) -> Result<()> {
    fs::create_dir_all(archives.join("partial"))?;
    let mut command = Command::new("apt-get");
    // Reinstall: also what this system has already. The lock guards installing, and only root may take it.
    command.args(["install", "--download-only", "--reinstall", "--yes", "--no-install-recommends"]);
    command.args(["-o", "Debug::NoLocking=true", "-o"]);
    command.arg(format!("Dir::Cache::archives={}", archives.display()));
    run(command.args(PACKAGES)).context("is this Debian, and was `apt-get update` run lately?")
}

fn unpack(archives: &Path, root: &Path) -> Result<()> {
    fs::create_dir_all(root)?;
    for archive in fs::read_dir(archives)? {
        let archive = archive?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("--extract").arg(archive).arg(root))?;
        }
    }
    Ok(())
}

/// The directories named after the architecture, and those that hold them.
fn libraries(root: &Path) -> Result<OsString> {
    let mut directories = Vec::new();
    for place in LIBRARY_ROOTS.map(|place| root.join(place)) {
        if !place.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&place)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            }
        }
        directories.push(place);
    }
    Ok(std::env::join_paths(directories)?)
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
