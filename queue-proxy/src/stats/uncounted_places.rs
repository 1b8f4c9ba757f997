//! UncountedPlaces: bounds the requests that are not counted, and shows a drain that they run.
//!
//! Health checks and requests of `no-wake` rules pass the limit, and any client can name itself a
//! health check. Without a bound it could send an app with a limit of 1 as many requests at a time
//! as it likes.

use std::sync::Arc;

use autoscaler::routing::breaker::ConcurrencyLimit;
use proxy::health_checks::uncounted_places;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of the pod.
#[derive(Debug)]
pub(crate) struct UncountedPlaces {
    free: Arc<Semaphore>,
    /// Has a clone for each request that a drain waits for.
    running: Arc<()>,
}

/// A request that is not counted, until its end.
#[derive(Debug)]
pub(crate) struct UncountedRequest {
    place: OwnedSemaphorePermit,
    _running: Arc<()>,
}

// === impl UncountedPlaces ===

impl UncountedPlaces {
    /// The [`uncounted_places`] of an app with this limit.
    pub(crate) fn new(limit: ConcurrencyLimit) -> Self {
        let limit = match limit {
            ConcurrencyLimit::Unlimited => None,
            ConcurrencyLimit::AtMost(limit) => Some(limit),
        };
        let places = uncounted_places(limit).min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(places)), running: Arc::default() }
    }

    /// A place; `None` if all are taken, and the request counts like any other.
    pub(crate) fn enter(&self) -> Option<UncountedRequest> {
        let place = self.free.clone().try_acquire_owned().ok()?;
        Some(UncountedRequest { place, _running: self.running.clone() })
    }

    /// Requests that a drain waits for.
    pub(crate) fn running(&self) -> usize {
        Arc::strong_count(&self.running) - 1
    }
}

// === impl UncountedRequest ===

impl UncountedRequest {
    /// The connection was upgraded: it keeps its place, and no drain waits for it.
    pub(crate) fn into_place(self) -> OwnedSemaphorePermit {
        self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_app_but_at_least_four() {
        for (limit, places) in [(1, 4), (4, 4), (10, 10)] {
            let pod = UncountedPlaces::new(ConcurrencyLimit::AtMost(limit));
            let mut entered: Vec<_> = std::iter::from_fn(|| pod.enter()).collect();
            assert_eq!((entered.len(), pod.running()), (places, places), "limit {limit}");
            let tunnel = entered.pop().map(UncountedRequest::into_place);
            assert!(pod.enter().is_none(), "a tunnel keeps its place");
            assert_eq!(pod.running(), places - 1, "no drain waits for a tunnel");
            drop(tunnel);
            assert!(pod.enter().is_some());
        }
        let unlimited = UncountedPlaces::new(ConcurrencyLimit::Unlimited);
        assert_eq!(std::iter::from_fn(|| unlimited.enter()).take(1000).count(), 1000);
    }
}
