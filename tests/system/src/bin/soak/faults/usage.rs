//! What the processes of a part hold of the machine, to find leaks.

use std::fs;

use anyhow::{Context, Result};
use bench_proxies::memory;
use kube::Client;
use system_tests::cluster::container_process;
use system_tests::cluster::installation;

/// The largest values among a part's processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) mebibytes: usize,
    pub(super) descriptors: usize,
}

// === impl Usage ===

impl Usage {
    /// # Errors
    /// When no process of the part runs on this machine.
    pub(super) async fn of(client: &Client, part: &str) -> Result<Self> {
        let pods = installation::ready_pods(client, part).await?;
        let all = pods.iter().map(|pod| read(container_process::find(pod, Some(part))?));
        let all = all.collect::<Result<Vec<_>>>()?;
        let largest = |of: fn(&Self) -> usize| all.iter().map(of).max().context("no ready pod");
        Ok(Self { mebibytes: largest(|it| it.mebibytes)?, descriptors: largest(|it| it.descriptors)? })
    }
}

fn read(process: u32) -> Result<Usage> {
    let mebibytes = usize::try_from(memory::resident(&[process])? >> 20)?;
    Ok(Usage { mebibytes, descriptors: fs::read_dir(format!("/proc/{process}/fd"))?.count() })
}
