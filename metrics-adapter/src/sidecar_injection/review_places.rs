//! ReviewPlaces: how many reviews are in memory, in all and for each peer address.
//!
//! Any pod can send reviews, so no peer may take all places. A peer waits for its own places first,
//! in order of arrival.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Peers above which the next acquisition drops the idle ones.
const MAX_PEERS: usize = 256;

/// Bounds on concurrent reviews.
#[derive(Debug)]
pub(super) struct ReviewPlaces {
    all: Arc<Semaphore>,
    per_peer: usize,
    peers: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

/// The place of one review, until its drop.
#[derive(Debug)]
pub(super) struct ReviewPlace {
    _of_all: OwnedSemaphorePermit,
    _of_peer: OwnedSemaphorePermit,
}

// === impl ReviewPlaces ===

impl ReviewPlaces {
    pub(super) fn new(total: usize, per_peer: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(total)), per_peer, peers: Mutex::default() }
    }

    /// Waits for a place. Cancel safe.
    ///
    /// # Errors
    /// Never: no semaphore is closed.
    pub(super) async fn acquire(&self, peer: IpAddr) -> Result<ReviewPlace, AcquireError> {
        let of_peer = self.of(peer).acquire_owned().await?;
        let of_all = self.all.clone().acquire_owned().await?;
        Ok(ReviewPlace { _of_all: of_all, _of_peer: of_peer })
    }

    fn of(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut peers = self.peers.lock();
        if peers.len() >= MAX_PEERS {
            // Permits and waiting acquisitions hold a reference.
            peers.retain(|_, places| Arc::strong_count(places) > 1);
        }
        peers.entry(peer).or_insert_with(|| Arc::new(Semaphore::new(self.per_peer))).clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn peer(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn peer_with_all_its_places_leaves_places_to_others() {
        let places = ReviewPlaces::new(3, 2);
        let acquire = |last| places.acquire(peer(last)).now_or_never();
        let mut first = vec![acquire(1).unwrap(), acquire(1).unwrap()];
        assert!(acquire(1).is_none(), "more than its share");
        let second = acquire(2).unwrap();
        assert!(acquire(2).is_none(), "more than there are");
        drop(second);
        drop(first.pop());
        assert!(acquire(1).is_some() && acquire(2).is_some());
    }

    #[test]
    fn drops_idle_peers() {
        let places = ReviewPlaces::new(MAX_PEERS, 1);
        let held = places.acquire(peer(1)).now_or_never().unwrap();
        for number in 0..u32::try_from(4 * MAX_PEERS).unwrap() {
            drop(places.acquire(IpAddr::from(number.to_be_bytes())).now_or_never().unwrap());
        }
        assert!(places.peers.lock().len() <= MAX_PEERS);
        assert!(places.acquire(peer(1)).now_or_never().is_none(), "its place is still counted");
        drop(held);
    }
}
