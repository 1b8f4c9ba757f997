//! The processes of containers, on a cluster with its nodes on this machine.

use std::fs;

use anyhow::{Context, Result, ensure};

/// The program of the process that holds a pod's namespaces.
const PAUSE: &str = "pause";

/// The process of a pod that runs this program; of any of its containers if none is given.
///
/// # Errors
/// When there is no such process on this machine.
pub fn find(pod: &str, program: Option<&str>) -> Result<u32> {
    let hostname = format!("HOSTNAME={pod}");
    let is_of_pod = |id: &u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == hostname.as_bytes())
    };
    let runs = |id: &u32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        program.map_or(name.trim_end() != PAUSE, |program| name.trim_end() == program)
    };
    let ids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let process = ids.into_iter().find(|id| runs(id) && is_of_pod(id));
    process.with_context(|| format!("no process {} of {pod} on this machine", program.unwrap_or_default()))
}

/// Sends SIGKILL to a process. Unlike the process of a pod that is deleted without grace, it gets
/// no signal that it could handle.
///
/// # Errors
/// When this user may not.
pub fn kill(process: u32) -> Result<()> {
    signal(process, "KILL")
}

/// Sends a signal to a process.
///
/// # Errors
/// When this user may not.
pub fn signal(process: u32, signal: &str) -> Result<()> {
    let arguments = [format!("-{signal}"), process.to_string()];
    let sent = std::process::Command::new("kill").args(arguments).status()?;
    ensure!(sent.success(), "process {process} did not get SIG{signal}");
    Ok(())
}
