//! The open connections of a listener by peer address, and which one gives up its place.
//!
//! One more connection than a peer address may have closes another connection of the address. One
//! more than the server may have closes a connection of the address with the most. Of an address,
//! the oldest connection without a running request is closed, else the oldest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::connection_activity::ConnectionActivity;
use super::limits::ConnectionBounds;

/// The open connections of a listener. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ConnectionTable {
    bounds: ConnectionBounds,
    open: Arc<Mutex<OpenConnections>>,
    /// Evicts all connections.
    all: CancellationToken,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    total: usize,
    authenticated: usize,
    by_peer: HashMap<IpAddr, BTreeMap<u64, OpenConnection>>,
}

#[derive(Debug)]
struct OpenConnection {
    evicted: CancellationToken,
    activity: ConnectionActivity,
}

/// The place of one open connection, until its drop.
#[derive(Debug)]
pub struct ConnectionSlot {
    table: ConnectionTable,
    peer: IpAddr,
    number: u64,
    evicted: CancellationToken,
    activity: ConnectionActivity,
    is_authenticated: AtomicBool,
}

// === impl ConnectionTable ===

impl ConnectionTable {
    pub(super) fn new(bounds: ConnectionBounds) -> Self {
        Self { bounds, open: Arc::default(), all: CancellationToken::new() }
    }

    /// Adds a connection of `peer`; evicts another one if there is no place.
    pub(super) fn admit(&self, peer: IpAddr) -> ConnectionSlot {
        let peer = peer.to_canonical();
        let (evicted, activity) = (self.all.child_token(), ConnectionActivity::new());
        let mut open = self.open.lock();
        if open.of(peer) >= self.bounds.per_peer {
            open.evict(peer);
        }
        if open.total >= self.bounds.total
            && let Some(largest) = open.largest_peer()
        {
            open.evict(largest);
        }
        let number = open.next;
        open.next += 1;
        open.total += 1;
        let connection = OpenConnection { evicted: evicted.clone(), activity: activity.clone() };
        open.by_peer.entry(peer).or_default().insert(number, connection);
        let is_authenticated = AtomicBool::new(false);
        ConnectionSlot { table: self.clone(), peer, number, evicted, activity, is_authenticated }
    }

    /// Evicts all connections, also authenticated ones.
    pub(super) fn evict_all(&self) {
        self.all.cancel();
    }
}

// === impl OpenConnections ===

impl OpenConnections {
    fn of(&self, peer: IpAddr) -> usize {
        self.by_peer.get(&peer).map_or(0, BTreeMap::len)
    }

    /// The address with the most connections; of several, that with the oldest connection.
    fn largest_peer(&self) -> Option<IpAddr> {
        let oldest = |connections: &BTreeMap<u64, _>| connections.keys().next().copied();
        let largest = self
            .by_peer
            .iter()
            .max_by_key(|(_, connections)| (connections.len(), std::cmp::Reverse(oldest(connections))));
        largest.map(|(peer, _)| *peer)
    }

    fn evict(&mut self, peer: IpAddr) {
        let Some(connections) = self.by_peer.get(&peer) else { return };
        let idle = connections.iter().find(|(_, connection)| !connection.activity.is_running());
        let Some(number) = idle.or_else(|| connections.iter().next()).map(|(number, _)| *number) else {
            return;
        };
        if let Some(connection) = self.remove(peer, number) {
            tracing::debug!(%peer, "connection closed in favour of a new one");
            connection.evicted.cancel();
        }
    }

    fn remove(&mut self, peer: IpAddr, number: u64) -> Option<OpenConnection> {
        let connections = self.by_peer.get_mut(&peer)?;
        let connection = connections.remove(&number)?;
        if connections.is_empty() {
            self.by_peer.remove(&peer);
        }
        self.total -= 1;
        Some(connection)
    }
}

// === impl ConnectionSlot ===

impl ConnectionSlot {
    /// Waits until the connection must close in favour of another one.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The address of the client; an IPv4-mapped one as IPv4.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Records that the client is authenticated: the connection no longer competes with anonymous
    /// ones, unless there are too many authenticated ones.
    pub fn authenticated(&self) {
        if self.is_authenticated.load(Ordering::Relaxed) {
            return;
        }
        let mut open = self.table.open.lock();
        if open.authenticated < self.table.bounds.authenticated
            && open.remove(self.peer, self.number).is_some()
        {
            open.authenticated += 1;
            self.is_authenticated.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn activity(&self) -> &ConnectionActivity {
        &self.activity
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.table.open.lock();
        if *self.is_authenticated.get_mut() {
            open.authenticated -= 1;
        } else {
            open.remove(self.peer, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(total: usize, per_peer: usize, authenticated: usize) -> ConnectionTable {
        ConnectionTable::new(ConnectionBounds { total, per_peer, authenticated })
    }

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn evicted(slots: &[ConnectionSlot]) -> Vec<usize> {
        (0..slots.len()).filter(|&i| slots[i].evicted.is_cancelled()).collect()
    }

    #[tokio::test]
    async fn closes_oldest_idle_connection_of_peer_at_its_bound() {
        let table = table(10, 2, 0);
        let other = table.admit(peer(2));
        let mut slots = vec![table.admit(peer(1)), table.admit(peer(1))];
        let running = slots[0].activity.begin_request();
        slots.push(table.admit(peer(1)));
        assert_eq!(evicted(&slots), [1], "the oldest one has a running request");
        drop(running);
        slots.push(table.admit("::ffff:10.0.0.1".parse().unwrap()));
        assert_eq!(evicted(&slots), [0, 1]);
        assert!(!other.evicted.is_cancelled());
        drop(slots);
        let open = table.open.lock();
        assert_eq!((open.total, open.by_peer.len()), (1, 1));
        drop(open);
    }

    #[tokio::test]
    async fn full_table_closes_connection_of_largest_peer() {
        let table = table(4, 4, 0);
        let small = [table.admit(peer(1))];
        let large: Vec<_> = (0..3).map(|_| table.admit(peer(2))).collect();
        let new = table.admit(peer(3));
        assert_eq!((evicted(&small), evicted(&large)), (vec![], vec![0]));
        assert!(!new.evicted.is_cancelled());
    }

    #[tokio::test]
    async fn full_table_keeps_authenticated_connections() {
        let table = table(2, 2, 1);
        let authenticated = table.admit(peer(1));
        authenticated.authenticated();
        authenticated.authenticated();
        let excess = table.admit(peer(1));
        excess.authenticated();
        let flood: Vec<_> = (0..10).map(|_| table.admit(peer(1))).collect();
        assert!(!authenticated.evicted.is_cancelled());
        assert!(excess.evicted.is_cancelled(), "beyond the bound of authenticated connections");
        drop(flood);
        drop(authenticated);
        assert_eq!(table.open.lock().authenticated, 0);
        table.admit(peer(1)).authenticated();
    }
}
