//! Programs from Debian packages, downloaded with their missing dependencies and unpacked into the
//! cache.
//!
//! Nothing is installed: no service starts, and an installed copy is neither used nor changed. The
//! cache stays until its directory is removed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Directories of shared libraries in packages.
const LIBRARY_ROOTS: [&str; 2] = ["lib", "usr/lib"];

/// Unpacked packages.
#[derive(Debug)]
pub struct Unpacked {
    /// Directory that has the packages' files, in place of `/`.
    pub root: PathBuf,
    libraries: OsString,
}

// === impl Unpacked ===

impl Unpacked {
    /// Environment in which the programs find their shared libraries.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![("LD_LIBRARY_PATH", self.libraries.clone())]
    }
}

/// Unpacks packages into `directory`, which has nothing else, unless their `programs` (paths
/// without the first `/`) exist there already.
///
/// # Errors
/// When apt cannot download the packages, or they do not contain the programs.
pub fn ensure(directory: &Path, packages: &[&str], programs: &[&str]) -> Result<Unpacked> {
    let (archives, root) = (directory.join("archives"), directory.join("root"));
    let missing = || programs.iter().find(|program| !root.join(program).exists());
    if missing().is_some() {
        eprintln!("downloading Debian's {} to {}", packages.join(" and "), directory.display());
        download(&archives, packages)?;
        unpack(&archives, &root)?;
    }
    if let Some(program) = missing() {
        bail!("{packages:?} have no {program}");
    }
    let libraries = libraries(&root)?;
    Ok(Unpacked { root, libraries })
}

fn download(archives: &Path, packages: &[&str]) -> Result<()> {
    fs::create_dir_all(archives.join("partial"))?;
    let mut command = Command::new("apt-get");
    // --reinstall also downloads packages that are installed. The lock protects installing, and
    // only root may take it.
    command.args(["install", "--download-only", "--reinstall", "--yes", "--no-install-recommends"]);
    command.args(["-o", "Debug::NoLocking=true", "-o"]);
    command.arg(format!("Dir::Cache::archives={}", archives.display()));
    run(command.args(packages)).context("cannot download Debian packages; run `apt-get update` first")
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

/// The library roots and their subdirectories, which are named after the architecture.
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
