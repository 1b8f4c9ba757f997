//! Thousands of namespaces with plain pods: connections to the API server, and memory.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::bench::{Bench, Size, TERMINATION};
use crate::run::peak_memory;

/// Connections of one process beside those that the watches of namespaces fill.
const OTHER_CONNECTIONS: usize = 5;
/// State of a row of `/proc/net/tcp` that is established.
const ESTABLISHED: &str = "01";

/// Measures this many namespaces; returns the missed bounds.
///
/// # Errors
/// When a process cannot be started, or does not finish its work.
pub(crate) async fn measure(
    namespaces: usize,
    streams: u32,
    zero_scaler: &Path,
    activator: &Path,
    logs: &Path,
) -> Result<Vec<String>> {
    let size = Size { workloads: namespaces, plain: true, streams };
    let mut bench = Bench::new(size, zero_scaler, activator, logs).await?;
    let (process, _) = bench.start("namespaces").await?;
    let bound = namespaces.div_ceil(usize::try_from(streams)?) + OTHER_CONNECTIONS;
    let mut missed = Vec::new();
    println!("{namespaces} namespaces with plain pods, {streams} streams on a connection");
    for (name, process) in [("activator", &bench.activator), ("zero-scaler", &process)] {
        let connections = connections(process.id(), bench.api_port)?;
        let memory = peak_memory(process)? >> 20;
        println!("{name:>14}: {connections} connections to the API server, {memory} MiB");
        if connections > bound {
            missed.push(format!("{connections} connections of the {name}, not {bound}"));
        }
    }
    process.finish(TERMINATION)?;
    Ok(missed)
}

/// The established connections of a process to a port.
fn connections(process: u32, port: u16) -> Result<usize> {
    let mut sockets = HashSet::new();
    for file in fs::read_dir(format!("/proc/{process}/fd"))? {
        // Files that were closed in the meantime have no target.
        let Ok(target) = fs::read_link(file?.path()) else { continue };
        let target = target.to_string_lossy();
        let inode = target.strip_prefix("socket:[").and_then(|inode| inode.strip_suffix(']'));
        sockets.extend(inode.map(str::to_owned));
    }
    let remote = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp")?;
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    Ok(rows.filter(|row| is_to(row, &remote) && row.get(9).is_some_and(|it| sockets.contains(*it))).count())
}

fn is_to(row: &[&str], remote: &str) -> bool {
    row.get(2).is_some_and(|address| address.ends_with(remote)) && row.get(3) == Some(&ESTABLISHED)
}
