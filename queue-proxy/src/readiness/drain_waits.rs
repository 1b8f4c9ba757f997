//! DrainWaits: bounds the requests that wait for the end of a drain.
//!
//! Every pod of the cluster may send them, and the kubelet's have no credential. A request beyond
//! the bound gets an error, on which the kubelet stops the app at once. So the bound is by peer
//! address: waiting requests of one pod take no place of the kubelet's.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Waiting requests of one peer: more than a pod has containers with a hook.
pub(crate) const MAX_OF_PEER: usize = 16;
/// Peers with waiting requests. The kubelet loses its place to this many pods at a time.
const MAX_PEERS: usize = 1024;

/// The waiting requests, by peer. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrainWaits(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of a waiting request; leaving it is dropping it.
#[derive(Debug)]
pub(crate) struct DrainWait {
    waits: DrainWaits,
    peer: IpAddr,
}

// === impl DrainWaits ===

impl DrainWaits {
    /// A place for a request of `peer`; `None` beyond the bounds.
    pub(crate) fn enter(&self, peer: IpAddr) -> Option<DrainWait> {
        let mut by_peer = self.0.lock();
        if by_peer.len() >= MAX_PEERS && !by_peer.contains_key(&peer) {
            return None;
        }
        let waiting = by_peer.entry(peer).or_default();
        if *waiting >= MAX_OF_PEER {
            return None;
        }
        *waiting += 1;
        Some(DrainWait { waits: self.clone(), peer })
    }
}

// === impl DrainWait ===

impl Drop for DrainWait {
    fn drop(&mut self) {
        let mut by_peer = self.waits.0.lock();
        let Some(waiting) = by_peer.get_mut(&self.peer) else { return };
        *waiting -= 1;
        if *waiting == 0 {
            by_peer.remove(&self.peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_places_of_each_peer_and_the_peers() {
        let waits = DrainWaits::default();
        let peer = |number: u32| IpAddr::from(number.to_be_bytes());
        let mut places: Vec<_> = (0..MAX_OF_PEER).map(|_| waits.enter(peer(1)).unwrap()).collect();
        assert!(waits.enter(peer(1)).is_none());
        places.pop();
        places.push(waits.enter(peer(1)).unwrap());
        places.extend((2..=MAX_PEERS as u32).map(|number| waits.enter(peer(number)).unwrap()));
        assert!(waits.enter(peer(0)).is_none());
        assert!(waits.enter(peer(2)).is_some(), "a known peer has more places");
        drop(places);
        assert!(waits.0.lock().is_empty());
    }
}
