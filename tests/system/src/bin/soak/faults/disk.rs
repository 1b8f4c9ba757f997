//! A full disk under the directory in which an activator keeps its state.

use std::fs::File;
use std::io::Write;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Where activators keep their state (`deploy/activator.yaml`).
const DIRECTORY: &str = "/var/lib/activator";

/// A full disk of a container, until dropped.
pub(crate) struct FullDisk {
    process: u32,
}

/// Mounts a full file system over the directory, in the container of this process only.
///
/// # Errors
/// When this user may not mount, or the process has ended.
pub(crate) fn fill(process: u32) -> Result<FullDisk> {
    let options = "size=64k,mode=0777";
    mount("mount", process, &["--types", "tmpfs", "--options", options, "tmpfs"])?;
    let disk = FullDisk { process };
    let path = format!("/proc/{process}/root{DIRECTORY}/full");
    let mut file = File::create(&path).with_context(|| path.clone())?;
    while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    ensure!(std::fs::write(path + "-2", [0; 4096]).is_err(), "the disk of process {process} is not full");
    Ok(disk)
}

fn mount(program: &str, process: u32, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(["--namespace", &process.to_string()]).args(arguments).arg(DIRECTORY);
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        if let Err(error) = mount("umount", self.process, &[]) {
            println!("  the disk stays full: {error:#}");
        }
    }
}
