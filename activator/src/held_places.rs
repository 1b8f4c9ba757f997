//! HeldPlaces: how many requests the whole process may hold, and how much memory they may keep, shared among the workloads.
//!
//! Each workload's queue is bounded on its own; these bounds are what the process can bear for all of them together. Of both,
//! each workload has a [share](autoscaler::fair_share) that no other can take: a flood on one never turns away the few
//! requests of another.
//!
//! Only requests that wait take a place. What one keeps in memory is reckoned when it begins to wait: its connection's
//! buffers, its head, and as much of its body as is read ahead.

use std::sync::Arc;

use autoscaler::fair_share::{FairShare, Holding};
use http::request::Parts;
use parking_lot::{Mutex, MutexGuard};

/// What a held request keeps whatever it says, in bytes: its connection's buffers, tasks and futures (measured by
/// `make bench-held`).
const EACH: u64 = 11 << 10;
/// The most of a body that is taken in while its request waits, in bytes: a read of HTTP/1.1, a stream's window of HTTP/2.
pub const BODY: u32 = 64 << 10;

/// The process's places. Clones share them.
#[derive(Clone, Debug)]
pub struct HeldPlaces {
    shares: Arc<Mutex<Shares>>,
}

#[derive(Debug)]
struct Shares {
    places: FairShare,
    bytes: FairShare,
}

/// What one workload holds.
#[derive(Debug)]
pub struct WorkloadPlaces {
    process: HeldPlaces,
    held: Mutex<(Holding, Holding)>,
}

/// One request's place; free again when dropped.
#[derive(Debug)]
pub struct HeldPlace<'a> {
    of: &'a WorkloadPlaces,
    bytes: u64,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// So many requests wait as may.
    Places(u64),
    /// Those that wait keep as many bytes as they may.
    Bytes(u64),
}

/// What a request keeps in memory while it waits, in bytes; `body` is the most that its body may have, if it says so.
pub fn kept_by(head: &Parts, body: Option<u64>) -> u64 {
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let path = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let head = u64::try_from(fields.sum::<usize>() + path).unwrap_or(u64::MAX);
    let most = u64::from(BODY);
    EACH.saturating_add(head).saturating_add(body.unwrap_or(most).min(most))
}

// === impl HeldPlaces ===

impl HeldPlaces {
    /// So many places, for requests that keep so many bytes together.
    pub fn new(places: usize, bytes: u64) -> Self {
        let places = u64::try_from(places).unwrap_or(u64::MAX);
        let shares = Shares { places: FairShare::new(places), bytes: FairShare::new(bytes) };
        Self { shares: Arc::new(Mutex::new(shares)) }
    }

    /// A workload's, until it is dropped.
    pub fn join(&self) -> WorkloadPlaces {
        let held = {
            let mut shares = self.lock();
            (shares.places.join(), shares.bytes.join())
        };
        WorkloadPlaces { process: self.clone(), held: Mutex::new(held) }
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock()
    }
}

// === impl WorkloadPlaces ===

impl WorkloadPlaces {
    /// A place for a request that keeps so many bytes.
    ///
    /// # Errors
    /// What there is no more of.
    pub fn take(&self, bytes: u64) -> Result<HeldPlace<'_>, Full> {
        let mut shares = self.process.lock();
        let mut held = self.lock();
        let (places, kept) = &mut *held;
        if !shares.places.take(places, 1) {
            return Err(Full::Places(shares.places.bound()));
        }
        if !shares.bytes.take(kept, bytes) {
            shares.places.give_back(places, 1);
            return Err(Full::Bytes(shares.bytes.bound()));
        }
        Ok(HeldPlace { of: self, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, (Holding, Holding)> {
        self.held.lock()
    }
}

impl Drop for WorkloadPlaces {
    fn drop(&mut self) {
        let (places, bytes) = std::mem::take(&mut *self.lock());
        let mut shares = self.process.lock();
        shares.places.leave(places);
        shares.bytes.leave(bytes);
    }
}

// === impl HeldPlace ===

impl Drop for HeldPlace<'_> {
    fn drop(&mut self) {
        let mut shares = self.of.process.lock();
        let mut held = self.of.lock();
        shares.places.give_back(&mut held.0, 1);
        shares.bytes.give_back(&mut held.1, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_dropped_place_is_free_again() {
        let process = HeldPlaces::new(1, 100);
        let workload = process.join();
        let place = workload.take(100);
        assert_eq!(workload.take(1).unwrap_err(), Full::Places(1));
        drop(place);
        assert!(workload.take(100).is_ok());
    }

    #[test]
    fn bytes_run_out_by_themselves_and_leave_places_alone() {
        let process = HeldPlaces::new(10, 100);
        let (large, small) = (process.join(), process.join());
        let places: Vec<_> = (0..3).map(|_| large.take(25).unwrap()).collect();
        assert_eq!(large.take(25).unwrap_err(), Full::Bytes(100));
        assert!(small.take(25).is_ok(), "its own share");
        drop(places);
        drop(small);
        let all: Vec<_> = (0..10).filter_map(|_| large.take(10).ok()).collect();
        assert_eq!(all.len(), 10);
    }

    #[test]
    fn what_is_kept_is_reckoned_with_the_head_and_the_body_that_is_read_ahead() {
        let head = || Request::get("/abcd").header("name", "value").body(()).unwrap().into_parts().0;
        assert_eq!(kept_by(&head(), Some(0)), EACH + 14);
        assert_eq!(kept_by(&head(), Some(10)), EACH + 24);
        assert_eq!(kept_by(&head(), Some(1 << 30)), kept_by(&head(), None));
    }
}
