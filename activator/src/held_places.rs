//! HeldPlaces: how many requests the whole process may hold, whatever their workloads.
//!
//! Each workload's queue is bounded on its own; this bound is what memory allows for all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of places. Clones share it.
#[derive(Clone, Debug)]
pub struct HeldPlaces {
    bound: usize,
    taken: Arc<AtomicUsize>,
}

/// One request's place; free again when dropped.
#[derive(Debug)]
pub struct HeldPlace {
    taken: Arc<AtomicUsize>,
}

// === impl HeldPlaces ===

impl HeldPlaces {
    /// So many places.
    pub fn new(bound: usize) -> Self {
        Self { bound, taken: Arc::default() }
    }

    /// A place, if there is one.
    pub fn take(&self) -> Option<HeldPlace> {
        let one_more = |taken| (taken < self.bound).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(HeldPlace { taken: self.taken.clone() })
    }

    /// How many there are.
    pub fn bound(&self) -> usize {
        self.bound
    }
}

// === impl HeldPlace ===

impl Drop for HeldPlace {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_place_is_free_again() {
        let places = HeldPlaces::new(1);
        let place = places.take();
        assert!(place.is_some() && places.take().is_none());
        drop(place);
        assert!(places.take().is_some());
    }
}
