//! The files under version control, as `git ls-files` lists them.

use std::process::Command;

use anyhow::{Context, ensure};

/// Paths of all files in the current folder and below.
pub(crate) fn tracked_files() -> anyhow::Result<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).output().context("run git ls-files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let files = String::from_utf8(output.stdout).context("file names that are not UTF-8")?;
    Ok(files.split_terminator('\0').map(str::to_owned).collect())
}
