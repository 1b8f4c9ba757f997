//! Faults of the network, inside of the cluster's network namespace.
//!
//! nft drops packets between pods, and rejects connections to the API server. Packets are delayed
//! by this program ([`packet_delay`](super::packet_delay)), because not every kernel has netem.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use system_tests::cluster::packet_filter::{PacketFilter, in_cluster, run};

use super::packet_delay;
use crate::args::DELAY_PACKETS;

const TABLE: &str = "inet rouse_faults";
/// The API server of every cluster of the cluster tool.
const API_SERVER: &str = "ip daddr 10.80.0.1 tcp dport 6443";
/// What queues packets for the process that delays them. Without that process they pass.
const DELAYED: &str = "FORWARD --jump NFQUEUE --queue-bypass --queue-num";

/// A fault, until it is dropped or ended.
pub(crate) struct NetworkFault {
    filter: Option<PacketFilter>,
    end: Option<String>,
    delay: Option<Child>,
}

/// Drops a share of all packets between pods.
///
/// # Errors
/// When the cluster is not of the cluster tool, or nft fails.
pub(crate) fn lose(percent: u32) -> Result<NetworkFault> {
    filter("forward", &format!("numgen random mod 100 < {percent} drop"))
}

/// Drops all packets between the pods of two groups.
///
/// # Errors
/// As [`lose`].
pub(crate) fn partition(one: &[IpAddr], other: &[IpAddr]) -> Result<NetworkFault> {
    filter("forward", &both_directions(one, &format!("{{ {} }}", set(other))))
}

/// Drops all packets between the pods of a group and all pods but some. It includes those that
/// start later.
///
/// # Errors
/// As [`lose`].
pub(crate) fn partition_from_all_but(group: &[IpAddr], others: &[IpAddr]) -> Result<NetworkFault> {
    filter("forward", &both_directions(group, &format!("!= {{ {} }}", set(others))))
}

/// Resets all connections to the API server, the node's and this program's included.
///
/// # Errors
/// As [`lose`].
pub(crate) fn end_api_server() -> Result<NetworkFault> {
    filter("input", &format!("{API_SERVER} reject with tcp reset"))
}

/// Delays all packets between pods, so a round trip takes twice as long.
///
/// # Errors
/// As [`lose`], and when the kernel has no packet queues.
pub(crate) fn delay(by: Duration) -> Result<NetworkFault> {
    let program = std::env::current_exe()?;
    let mut process = in_cluster()?
        .arg(program)
        .arg(format!("--{}={}", DELAY_PACKETS, by.as_millis()))
        .stdout(Stdio::piped())
        .spawn()?;
    let output = process.stdout.take().context("the process that delays packets has no output")?;
    let end = format!("iptables --table mangle --delete {DELAYED} {}", packet_delay::QUEUE);
    let mut fault = NetworkFault { filter: None, end: None, delay: Some(process) };
    // It prints a line when it is ready.
    ensure!(BufReader::new(output).lines().next().is_some(), "packets cannot be delayed");
    run(&format!("iptables --table mangle --insert {DELAYED} {}", packet_delay::QUEUE))?;
    fault.end = Some(end);
    Ok(fault)
}

fn both_directions(one: &[IpAddr], other: &str) -> String {
    let one = set(one);
    format!("ip saddr {{ {one} }} ip daddr {other} drop; ip daddr {{ {one} }} ip saddr {other} drop")
}

fn set(group: &[IpAddr]) -> String {
    group.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

fn filter(hook: &str, rules: &str) -> Result<NetworkFault> {
    Ok(NetworkFault { filter: Some(PacketFilter::add(TABLE, hook, rules)?), end: None, delay: None })
}

// === impl NetworkFault ===

impl NetworkFault {
    /// Ends the fault.
    ///
    /// # Errors
    /// When nft or iptables fails.
    pub(crate) fn end(mut self) -> Result<()> {
        self.end_once()
    }

    fn end_once(&mut self) -> Result<()> {
        drop(self.filter.take());
        let ended = self.end.take().map_or(Ok(()), |script| run(&script));
        if let Some(mut delay) = self.delay.take() {
            // Packets that it has are lost.
            delay.kill()?;
            delay.wait()?;
        }
        ended
    }
}

impl Drop for NetworkFault {
    fn drop(&mut self) {
        if let Err(error) = self.end_once() {
            println!("  the fault stays: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_drops_both_directions() {
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let rules = both_directions(&[a, b], "!= { 10.0.0.3 }");
        let expected = "ip saddr { 10.0.0.1, 10.0.0.2 } ip daddr != { 10.0.0.3 } drop; \
                        ip daddr { 10.0.0.1, 10.0.0.2 } ip saddr != { 10.0.0.3 } drop";
        assert_eq!(rules, expected);
    }
}
