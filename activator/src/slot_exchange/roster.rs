//! Roster: which activators there are, which of them slots are divided among, and whom to connect to.
//!
//! ```text
//!  behind the Service ──► awaited ──► connected ──► lost
//!                           │ shares    │ shares ▲    │ shares nothing
//!                           └── a second passed ─┼────┘
//!                               shares nothing   └─ connects again
//! ```
//!
//! A newcomer is counted at once, for it counts us as well; what was connected and is lost has died, mostly, and its slots
//! must not lie idle until Kubernetes notices. While views differ the sidecar's limit is the guard. Who is not behind the
//! Service itself owns no slots and borrows, unless there is nobody to borrow from.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

/// Time in which a newcomer is counted without being connected.
const PATIENCE: Duration = Duration::from_secs(1);

/// The activators, as one of them sees them.
#[derive(Debug)]
pub(super) struct Roster {
    own: IpAddr,
    /// Whether we are behind the Service ourselves.
    is_member: bool,
    /// The others that are.
    members: BTreeMap<IpAddr, Member>,
    /// Connected ones, members or not.
    linked: BTreeSet<IpAddr>,
}

#[derive(Debug)]
struct Member {
    address: SocketAddr,
    since: Instant,
    /// Whether it was ever connected.
    met: bool,
}

// === impl Roster ===

impl Roster {
    /// Nobody else is known.
    pub(super) fn new(own: IpAddr) -> Self {
        Self { own, is_member: false, members: BTreeMap::new(), linked: BTreeSet::new() }
    }

    /// Our own address.
    pub(super) fn own(&self) -> IpAddr {
        self.own
    }

    /// Takes in who is behind the Service. Addresses of another family are other names of the same activators.
    pub(super) fn set_members(&mut self, addresses: &BTreeSet<SocketAddr>, now: Instant) {
        let same_family = |address: &&SocketAddr| address.is_ipv4() == self.own.is_ipv4();
        let addresses: BTreeMap<IpAddr, SocketAddr> =
            addresses.iter().filter(same_family).map(|address| (address.ip(), *address)).collect();
        self.is_member = addresses.contains_key(&self.own);
        self.members.retain(|ip, member| addresses.get(ip) == Some(&member.address));
        for (ip, address) in addresses.into_iter().filter(|(ip, _)| *ip != self.own) {
            let met = self.linked.contains(&ip);
            self.members.entry(ip).or_insert(Member { address, since: now, met });
        }
    }

    /// Connected to this one.
    pub(super) fn linked(&mut self, ip: IpAddr) {
        self.linked.insert(ip);
        if let Some(member) = self.members.get_mut(&ip) {
            member.met = true;
        }
    }

    /// No more connected to it.
    pub(super) fn lost(&mut self, ip: IpAddr) {
        self.linked.remove(&ip);
    }

    /// Those among which slots are divided.
    pub(super) fn sharers(&self, now: Instant) -> BTreeSet<IpAddr> {
        let shares = |(ip, member): &(&IpAddr, &Member)| {
            self.linked.contains(ip) || (!member.met && now < member.since + PATIENCE)
        };
        let mut sharers: BTreeSet<IpAddr> = self.members.iter().filter(shares).map(|(ip, _)| *ip).collect();
        if self.is_member || self.linked.is_empty() {
            sharers.insert(self.own);
        }
        sharers
    }

    /// When [`sharers`](Self::sharers) may be others without anything happening.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let awaited = self.members.iter().filter(|(ip, member)| !member.met && !self.linked.contains(ip));
        awaited.map(|(_, member)| member.since + PATIENCE).filter(|change| *change > now).min()
    }

    /// Where to connect, and whether we had been connected there.
    pub(super) fn to_dial(&self) -> Vec<(SocketAddr, bool)> {
        let ours = |ip: &IpAddr| !self.linked.contains(ip) && (self.own < *ip || !self.is_member);
        self.members.iter().filter(|(ip, _)| ours(ip)).map(|(_, m)| (m.address, m.met)).collect()
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

    fn dialed(roster: &Roster) -> Vec<IpAddr> {
        roster.to_dial().into_iter().map(|(address, _)| address.ip()).collect()
    }

    #[test]
    fn a_newcomer_is_counted_at_once_and_given_up_after_a_second() {
        let (start, mut roster) = (Instant::now(), Roster::new(ip(2)));
        roster.set_members(&members(&[1, 2, 3]), start);
        assert_eq!(roster.sharers(start), ips(&[1, 2, 3]));
        assert_eq!(roster.next_change(start), Some(start + PATIENCE));
        roster.linked(ip(1));
        let later = start + PATIENCE;
        assert_eq!((roster.sharers(later), roster.next_change(later)), (ips(&[1, 2]), None));
        roster.linked(ip(3));
        assert_eq!(roster.sharers(later), ips(&[1, 2, 3]));
    }

    #[test]
    fn who_is_lost_shares_nothing_until_it_is_back() {
        let (start, mut roster) = (Instant::now(), Roster::new(ip(1)));
        roster.set_members(&members(&[1, 2]), start);
        roster.linked(ip(2));
        roster.lost(ip(2));
        assert_eq!((roster.sharers(start), dialed(&roster)), (ips(&[1]), vec![ip(2)]));
        roster.linked(ip(2));
        assert_eq!((roster.sharers(start), dialed(&roster)), (ips(&[1, 2]), vec![]));
    }

    #[test]
    fn the_lower_one_connects_and_so_does_who_is_not_behind_the_service() {
        let (start, mut roster) = (Instant::now(), Roster::new(ip(2)));
        roster.set_members(&members(&[1, 2, 3]), start);
        assert_eq!(dialed(&roster), [ip(3)]);
        roster.set_members(&members(&[1, 3]), start);
        assert_eq!(dialed(&roster), [ip(1), ip(3)]);
    }

    #[test]
    fn who_stops_owns_nothing_as_long_as_it_can_borrow() {
        let (start, mut roster) = (Instant::now(), Roster::new(ip(1)));
        roster.set_members(&members(&[1, 2]), start);
        roster.linked(ip(2));
        roster.set_members(&members(&[2]), start);
        assert_eq!(roster.sharers(start), ips(&[2]));
        roster.lost(ip(2));
        assert_eq!(roster.sharers(start), ips(&[1]));
    }

    #[test]
    fn other_families_are_other_names() {
        let (start, mut roster) = (Instant::now(), Roster::new(ip(1)));
        let mut addresses = members(&[1, 2]);
        addresses.insert("[fd00::2]:1".parse().unwrap());
        roster.set_members(&addresses, start);
        assert_eq!(roster.sharers(start), ips(&[1, 2]));
    }
}
