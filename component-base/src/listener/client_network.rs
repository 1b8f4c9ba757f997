//! The network of a client, for bounds by client: a host of IPv6 has all addresses of a /64.

use std::net::{IpAddr, Ipv6Addr};

/// The /64 of an address of IPv6, and an address of IPv4 itself.
pub fn network_of(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}
