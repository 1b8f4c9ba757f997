//! Faults of the network between pods, inside of the cluster's network namespace.
//!
//! The cluster tool runs the programs there: tc for loss and delay on the host's end of each pod's
//! link, nft for partitions. Links of pods that start later have no loss and no delay.

use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// All links to pods.
const LINKS: &str = "$(ip -o link show type veth | sed 's/^[0-9]*: \\([^@:]*\\).*/\\1/')";
/// Pods of one node reach each other over its bridge, and through Services over its routes.
const FAMILIES: [&str; 2] = ["bridge", "inet"];
const TABLE: &str = "rouse_faults";

/// A fault, until it is dropped or ended.
pub(crate) struct NetworkFault {
    end: Option<String>,
}

/// Drops a share of all packets to and from pods.
///
/// # Errors
/// When the cluster is not of the cluster tool, or tc fails.
pub(crate) fn lose(percent: u32) -> Result<NetworkFault> {
    disturb(&format!("loss {percent}%"))
}

/// Delays all packets to pods, so a round trip between two pods takes twice as long.
///
/// # Errors
/// As [`lose`].
pub(crate) fn delay(milliseconds: u32) -> Result<NetworkFault> {
    disturb(&format!("delay {milliseconds}ms"))
}

/// Drops all packets between the pods of two groups.
///
/// # Errors
/// When the cluster is not of the cluster tool, or nft fails.
pub(crate) fn partition(one: &[IpAddr], other: &[IpAddr]) -> Result<NetworkFault> {
    let end = FAMILIES.map(|family| format!("nft delete table {family} {TABLE}")).join("; ");
    let rules = FAMILIES.map(|family| format!("nft '{}'", table(family, one, other))).join("\n");
    run(&rules)?;
    Ok(NetworkFault { end: Some(end) })
}

fn table(family: &str, one: &[IpAddr], other: &[IpAddr]) -> String {
    let set = |group: &[IpAddr]| group.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
    let (one, other) = (set(one), set(other));
    format!(
        "table {family} {TABLE} {{ chain forward {{ type filter hook forward priority -300; \
         ip saddr {{ {one} }} ip daddr {{ {other} }} drop; \
         ip saddr {{ {other} }} ip daddr {{ {one} }} drop; }} }}"
    )
}

fn disturb(netem: &str) -> Result<NetworkFault> {
    run(&format!("for link in {LINKS}; do tc qdisc replace dev $link root netem {netem}; done"))?;
    // A link may be gone with its pod.
    let end = format!("for link in {LINKS}; do tc qdisc delete dev $link root || true; done");
    Ok(NetworkFault { end: Some(end) })
}

/// Runs a script in the cluster's network namespace.
fn run(script: &str) -> Result<()> {
    let tool = std::env::var_os("CLUSTER").context("CLUSTER is not set; run make soak")?;
    let output = Command::new(tool).args(["exec", "--", "sh", "-ec", script]).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{script}: {}", error.trim());
    Ok(())
}

// === impl NetworkFault ===

impl NetworkFault {
    /// Ends the fault.
    ///
    /// # Errors
    /// When tc or nft fails.
    pub(crate) fn end(mut self) -> Result<()> {
        self.end.take().map_or(Ok(()), |script| run(&script))
    }
}

impl Drop for NetworkFault {
    fn drop(&mut self) {
        if let Some(script) = self.end.take()
            && let Err(error) = run(&script)
        {
            println!("  the fault stays: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_drops_both_directions() {
        let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|ip| ip.parse().unwrap());
        let table = table("inet", &[a, b], &[c]);
        assert!(table.contains("ip saddr { 10.0.0.1, 10.0.0.2 } ip daddr { 10.0.0.3 } drop;"), "{table}");
        assert!(table.contains("ip saddr { 10.0.0.3 } ip daddr { 10.0.0.1, 10.0.0.2 } drop;"), "{table}");
    }
}
