//! Membership: the other activators, which of them share the slots, and which of them to connect
//! to.
//!
//! ```text
//!  behind the Service ──► awaited ──► connected ──► lost
//!                           │ shares    │ shares ▲    │ shares nothing
//!                           └── after a second ──┼────┘
//!                               shares nothing   └─ connects again
//! ```
//!
//! A new activator shares at once, because it counts this one as well. An activator that lost its
//! connection has mostly died, and its slots must not be idle until Kubernetes removes its
//! endpoint. While the views of activators differ, the limit of the queue-proxy still holds. An
//! activator that is not behind the Service owns no slots and borrows, unless no other activator is
//! connected.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

/// How long a new activator shares without being connected.
const CONNECT_GRACE: Duration = Duration::from_secs(1);

/// The activators, as seen by one of them.
#[derive(Debug)]
pub(super) struct Membership {
    own: IpAddr,
    /// Whether this activator is behind the Service.
    is_member: bool,
    /// The other activators behind the Service.
    members: BTreeMap<IpAddr, Member>,
    /// Connected activators, members or not.
    linked: BTreeSet<IpAddr>,
}

#[derive(Debug)]
struct Member {
    address: SocketAddr,
    since: Instant,
    /// Whether it was ever connected.
    was_connected: bool,
}

// === impl Membership ===

impl Membership {
    /// A membership without other activators.
    pub(super) fn new(own: IpAddr) -> Self {
        Self { own, is_member: false, members: BTreeMap::new(), linked: BTreeSet::new() }
    }

    /// The address of this activator.
    pub(super) fn own(&self) -> IpAddr {
        self.own
    }

    /// Sets the addresses behind the Service. Those of the other IP family belong to the same
    /// activators and are ignored.
    pub(super) fn set_members(&mut self, addresses: &BTreeSet<SocketAddr>, now: Instant) {
        let same_family = |address: &&SocketAddr| address.is_ipv4() == self.own.is_ipv4();
        let addresses: BTreeMap<IpAddr, SocketAddr> =
            addresses.iter().filter(same_family).map(|address| (address.ip(), *address)).collect();
        self.is_member = addresses.contains_key(&self.own);
        self.members.retain(|ip, member| addresses.get(ip) == Some(&member.address));
        for (ip, address) in addresses.into_iter().filter(|(ip, _)| *ip != self.own) {
            let was_connected = self.linked.contains(&ip);
            self.members.entry(ip).or_insert(Member { address, since: now, was_connected });
        }
    }

    /// Notes a connection to this activator.
    pub(super) fn linked(&mut self, ip: IpAddr) {
        self.linked.insert(ip);
        if let Some(member) = self.members.get_mut(&ip) {
            member.was_connected = true;
        }
    }

    /// Notes the end of the connection to this activator.
    pub(super) fn lost(&mut self, ip: IpAddr) {
        self.linked.remove(&ip);
    }

    /// The activators among which slots are divided.
    pub(super) fn sharers(&self, now: Instant) -> BTreeSet<IpAddr> {
        let shares = |(ip, member): &(&IpAddr, &Member)| {
            self.linked.contains(ip) || (!member.was_connected && now < member.since + CONNECT_GRACE)
        };
        let mut sharers: BTreeSet<IpAddr> = self.members.iter().filter(shares).map(|(ip, _)| *ip).collect();
        if self.is_member || self.linked.is_empty() {
            sharers.insert(self.own);
        }
        sharers
    }

    /// When [`sharers`](Self::sharers) may change by time alone.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let awaited =
            self.members.iter().filter(|(ip, member)| !member.was_connected && !self.linked.contains(ip));
        awaited.map(|(_, member)| member.since + CONNECT_GRACE).filter(|change| *change > now).min()
    }

    /// The addresses to connect to, and whether each was connected before.
    pub(super) fn to_dial(&self) -> Vec<(SocketAddr, bool)> {
        let is_ours = |ip: &IpAddr| !self.linked.contains(ip) && (self.own < *ip || !self.is_member);
        self.members.iter().filter(|(ip, _)| is_ours(ip)).map(|(_, m)| (m.address, m.was_connected)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn members(lasts: &[u8]) -> BTreeSet<SocketAddr> {
        lasts.iter().map(|last| SocketAddr::new(ip(*last), 1)).collect()
    }

    fn ips(lasts: &[u8]) -> BTreeSet<IpAddr> {
        lasts.iter().map(|last| ip(*last)).collect()
    }

    fn dialed(roster: &Membership) -> Vec<IpAddr> {
        roster.to_dial().into_iter().map(|(address, _)| address.ip()).collect()
    }

    #[test]
    fn new_activator_shares_for_one_second_without_a_connection() {
        let (start, mut roster) = (Instant::now(), Membership::new(ip(2)));
        roster.set_members(&members(&[1, 2, 3]), start);
        assert_eq!(roster.sharers(start), ips(&[1, 2, 3]));
        assert_eq!(roster.next_change(start), Some(start + CONNECT_GRACE));
        roster.linked(ip(1));
        let later = start + CONNECT_GRACE;
        assert_eq!((roster.sharers(later), roster.next_change(later)), (ips(&[1, 2]), None));
        roster.linked(ip(3));
        assert_eq!(roster.sharers(later), ips(&[1, 2, 3]));
    }

    #[test]
    fn lost_activator_shares_nothing_until_it_reconnects() {
        let (start, mut roster) = (Instant::now(), Membership::new(ip(1)));
        roster.set_members(&members(&[1, 2]), start);
        roster.linked(ip(2));
        roster.lost(ip(2));
        assert_eq!((roster.sharers(start), dialed(&roster)), (ips(&[1]), vec![ip(2)]));
        roster.linked(ip(2));
        assert_eq!((roster.sharers(start), dialed(&roster)), (ips(&[1, 2]), vec![]));
    }

    #[test]
    fn lower_address_connects_and_so_does_one_outside_the_service() {
        let (start, mut roster) = (Instant::now(), Membership::new(ip(2)));
        roster.set_members(&members(&[1, 2, 3]), start);
        assert_eq!(dialed(&roster), [ip(3)]);
        roster.set_members(&members(&[1, 3]), start);
        assert_eq!(dialed(&roster), [ip(1), ip(3)]);
    }

    #[test]
    fn stopping_activator_owns_no_slots_while_it_can_borrow() {
        let (start, mut roster) = (Instant::now(), Membership::new(ip(1)));
        roster.set_members(&members(&[1, 2]), start);
        roster.linked(ip(2));
        roster.set_members(&members(&[2]), start);
        assert_eq!(roster.sharers(start), ips(&[2]));
        roster.lost(ip(2));
        assert_eq!(roster.sharers(start), ips(&[1]));
    }

    #[test]
    fn ignores_addresses_of_other_ip_family() {
        let (start, mut roster) = (Instant::now(), Membership::new(ip(1)));
        let mut addresses = members(&[1, 2]);
        addresses.insert("[fd00::2]:1".parse().unwrap());
        roster.set_members(&addresses, start);
        assert_eq!(roster.sharers(start), ips(&[1, 2]));
    }
}
