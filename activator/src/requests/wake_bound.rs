//! WakeBound: how many workloads one peer may wake in a minute by TCP connections.
//!
//! A TCP connection counts before its first byte, because in many protocols the server sends first.
//! So a scan of the leased ports would start every workload of the cluster. Further connections of
//! such a peer wait for their turn, uncounted, and a scanner has closed them by then. HTTP requests
//! are not bounded: an ingress is one peer, and wakes many workloads.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use autoscaler::Key;
use component_base::listener::client_network::network_of;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Distinct workloads that a peer wakes in a [`PERIOD`].
const MAX_WAKES: usize = 30;
const PERIOD: Duration = Duration::from_secs(60);
/// Peers that are distinguished; further ones share the wakes of one.
const MAX_PEERS: usize = 4096;

/// The wakes of the last minute.
#[derive(Debug, Default)]
pub struct WakeBound(Mutex<HashMap<IpAddr, PeerWakes>>);

/// The workloads that a peer woke, the earliest first.
type PeerWakes = VecDeque<(Instant, Key)>;

// === impl WakeBound ===

impl WakeBound {
    /// Waits until `peer` may wake the workload. Connections to a workload that it woke before in
    /// the period do not wait.
    pub async fn turn(&self, peer: IpAddr, workload: &Key) {
        while let Err(next) = self.try_wake(network_of(peer), workload, Instant::now()) {
            sleep_until(next).await;
        }
    }

    /// # Errors
    /// When to try again.
    fn try_wake(&self, peer: IpAddr, workload: &Key, now: Instant) -> Result<(), Instant> {
        let mut peers = self.0.lock();
        if peers.len() >= MAX_PEERS && !peers.contains_key(&peer) {
            peers.retain(|_, wakes| wakes.back().is_some_and(|(at, _)| *at + PERIOD > now));
        }
        let is_full = peers.len() >= MAX_PEERS && !peers.contains_key(&peer);
        let wakes = peers.entry(if is_full { Ipv6Addr::UNSPECIFIED.into() } else { peer }).or_default();
        while wakes.front().is_some_and(|(at, _)| *at + PERIOD <= now) {
            wakes.pop_front();
        }
        if wakes.iter().any(|(_, woken)| woken == workload) {
            return Ok(());
        }
        match wakes.front() {
            Some((earliest, _)) if wakes.len() >= MAX_WAKES => Err(*earliest + PERIOD),
            _ => {
                wakes.push_back((now, workload.clone()));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::new("shop", format!("web-{number}"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn scan_wakes_thirty_workloads_a_minute_and_other_peers_are_not_delayed() {
        let (bound, began) = (WakeBound::default(), Instant::now());
        for number in 0..MAX_WAKES {
            bound.turn(ip("10.0.0.1"), &key(number)).await;
        }
        bound.turn(ip("10.0.0.1"), &key(0)).await;
        bound.turn(ip("10.0.0.2"), &key(99)).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        bound.turn(ip("10.0.0.1"), &key(99)).await;
        assert!(began.elapsed() >= PERIOD);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_one_ipv6_network_are_one_peer() {
        let bound = WakeBound::default();
        for number in 0..MAX_WAKES {
            bound.turn(ip(&format!("fd00::{number:x}")), &key(number)).await;
        }
        let now = Instant::now();
        assert!(bound.try_wake(network_of(ip("fd00::ffff")), &key(99), now).is_err());
        assert!(bound.try_wake(network_of(ip("fd00:0:0:1::1")), &key(99), now).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn table_of_peers_is_bounded() {
        let bound = WakeBound::default();
        for number in 0..u32::try_from(2 * MAX_PEERS).unwrap() {
            let _ = bound.try_wake(std::net::Ipv4Addr::from(number).into(), &key(0), Instant::now());
        }
        assert!(bound.0.lock().len() <= MAX_PEERS + 1);
    }
}
