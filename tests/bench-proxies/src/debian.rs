//! Programs as Debian builds them: downloaded with what they need beyond this system, and unpacked into the cache.
//!
//! Nothing is installed, so no service starts and the system's own, if any, is neither used nor touched. What is in the cache
//! stays until its directory is removed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Places of shared libraries in packages.
const LIBRARY_ROOTS: [&str; 2] = ["lib", "usr/lib"];

/// Unpacked packages.
#[derive(Debug)]
pub struct Unpacked {
    /// Stands for `/`.
    pub root: PathBuf,
    libraries: OsString,
}

// === impl Unpacked ===

impl Unpacked {
    /// Where its programs find their shared libraries.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![("LD_LIBRARY_PATH", self.libraries.clone())]
    }
}

/// Unpacks packages into `directory`, which is theirs alone, unless their `programs` (paths without the first `/`) are there.
///
/// # Errors
/// When apt cannot download them, or they do not have these programs.
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
    // Reinstall: also what this system has already. The lock guards installing, and only root may take it.
    command.args(["install", "--download-only", "--reinstall", "--yes", "--no-install-recommends"]);
    command.args(["-o", "Debug::NoLocking=true", "-o"]);
    command.arg(format!("Dir::Cache::archives={}", archives.display()));
    run(command.args(packages)).context("is this Debian, and was `apt-get update` run lately?")
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
