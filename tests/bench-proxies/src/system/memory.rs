//! Resident memory of processes, read from `/proc`.

use std::fs;

use anyhow::{Context, Result};

/// Resident bytes, summed over these processes; shared pages count once for each process.
///
/// # Errors
/// When a process has ended.
pub fn resident(processes: &[u32]) -> Result<u64> {
    processes.iter().try_fold(0, |sum, process| Ok(sum + read(&process.to_string(), "VmRSS:")?))
}

/// Peak resident bytes of one process, given by its id or as `self`.
///
/// # Errors
/// When it has ended.
pub fn most_resident(process: &str) -> Result<u64> {
    read(process, "VmHWM:")
}

fn read(process: &str, field: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).with_context(|| path.clone())?;
    parse(&status, field).with_context(|| format!("no {field} in {path}"))
}

fn parse(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_kibibytes_to_bytes() {
        let status = "Name:\tnginx\nVmHWM:\t    9000 kB\nVmRSS:\t    4096 kB\nThreads:\t1\n";
        assert_eq!(parse(status, "VmRSS:"), Some(4 << 20));
        assert_eq!(parse("Name:\tkthreadd\n", "VmRSS:"), None);
    }

    #[test]
    fn reads_memory_of_this_process() {
        let now = resident(&[std::process::id()]).unwrap();
        assert!(now > 100_000 && most_resident("self").unwrap() >= now);
    }
}
