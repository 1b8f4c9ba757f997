//! Attacks by datagrams to the ports of statistics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use autoscaler::stats::Stat;
use autoscaler::stats::datagram::{MAX_LENGTH, StatQuery, StatResponse};
use tokio::net::UdpSocket;

use super::BATCH_PAUSE;
use crate::tally::Tally;

/// Datagrams before a pause.
const BATCH: usize = 64;
/// Local ports that Linux gives to sockets.
const EPHEMERAL_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// Sends valid queries, each of which gets a response, and bytes that are not queries.
pub(crate) async fn flood(target: SocketAddr, tally: Arc<Tally>) -> anyhow::Result<()> {
    let socket = socket(target.ip()).await?;
    socket.connect(target).await?;
    let mut response = [0; MAX_LENGTH];
    loop {
        for number in 0..BATCH {
            let datagram = if number % 2 == 0 { query().encode() } else { noise() };
            // A full buffer, or an ICMP error of a former datagram.
            let _ = socket.try_send(&datagram);
            if socket.try_recv(&mut response).is_ok() {
                tally.add_received();
            }
        }
        tally.add_sent(BATCH as u64);
        tokio::time::sleep(BATCH_PAUSE).await;
    }
}

/// Sends responses of pods without requests, which no collector requested, to each port at which
/// one may listen.
pub(crate) async fn forge(target: IpAddr, tally: Arc<Tally>) -> anyhow::Result<()> {
    let socket = socket(target).await?;
    loop {
        for (number, port) in EPHEMERAL_PORTS.enumerate() {
            let datagram = StatResponse::encode(query(), Some(&Stat::default()));
            let _ = socket.try_send_to(&datagram, (target, port).into());
            tally.add_sent(1);
            if number % BATCH == 0 {
                tokio::time::sleep(BATCH_PAUSE).await;
            }
        }
    }
}

async fn socket(target: IpAddr) -> std::io::Result<UdpSocket> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0)).await
}

/// Of either version; one of version 2 sets the latency objective of the pod's sidecar.
fn query() -> StatQuery {
    StatQuery { nonce: rand::random(), objective_micros: rand::random::<bool>().then(rand::random) }
}

/// Up to two times as long as a query.
fn noise() -> Vec<u8> {
    let length = usize::from(rand::random::<u8>()) % (2 * MAX_LENGTH);
    (0..length).map(|_| rand::random()).collect()
}
