//! HoldBudget: how many requests the process may hold, and how many bytes they may retain, shared
//! by all workloads.
//!
//! The queue of each workload is bounded by itself; these bounds are what the process can bear for
//! all of them together. Each namespace has a [share](autoscaler::routing::fair_share) of both that
//! others cannot use, and each of its workloads a part of that: a flood on one workload never leads
//! to rejections on another, and a namespace with many workloads has no larger share.
//!
//! Only requests that wait need a permit. What a request retains is estimated when it begins to
//! wait: the buffers of its connection, its head, and as much of its body as is read ahead.

use std::sync::Arc;

use autoscaler::routing::fair_share::{FairShare, ShareHolding};
use http::request::Parts;
use parking_lot::{Mutex, MutexGuard};

/// Bytes that every held request retains: buffers, tasks and futures of its connection (measured by
/// `make bench-held`).
const BASE_BYTES: u64 = 11 << 10;
/// Bytes of a body that are read while its request waits, at most: one read of HTTP/1.1, or a
/// stream's window of HTTP/2.
pub const BODY_READ_AHEAD: u32 = 64 << 10;

/// The budget of the process. Clones share it.
#[derive(Clone, Debug)]
pub struct HoldBudget {
    shares: Arc<Mutex<Shares>>,
}

#[derive(Debug)]
struct Shares {
    requests: FairShare,
    bytes: FairShare,
}

/// What one workload uses of the budget.
#[derive(Debug)]
pub struct WorkloadBudget {
    process: HoldBudget,
    held: Mutex<(ShareHolding, ShareHolding)>,
}

/// Permits one request to wait, until dropped.
#[derive(Debug)]
pub struct HoldPermit<'a> {
    of: &'a WorkloadBudget,
    bytes: u64,
}

/// Which bound of the budget is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetExceeded {
    /// The number of requests, with its bound.
    Requests(u64),
    /// The retained bytes, with their bound.
    Bytes(u64),
}

/// Estimates the bytes that a request retains while it waits; `body` is the upper bound of its body
/// size, if it has one.
pub fn retained_bytes(head: &Parts, body: Option<u64>) -> u64 {
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let path = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let head = u64::try_from(fields.sum::<usize>() + path).unwrap_or(u64::MAX);
    let read_ahead = u64::from(BODY_READ_AHEAD);
    BASE_BYTES.saturating_add(head).saturating_add(body.unwrap_or(read_ahead).min(read_ahead))
}

// === impl HoldBudget ===

impl HoldBudget {
    /// A budget of so many requests, which retain so many bytes together.
    pub fn new(requests: usize, bytes: u64) -> Self {
        let requests = u64::try_from(requests).unwrap_or(u64::MAX);
        let shares = Shares { requests: FairShare::new(requests), bytes: FairShare::new(bytes) };
        Self { shares: Arc::new(Mutex::new(shares)) }
    }

    /// Adds a workload of a namespace, until the returned value is dropped.
    pub fn join(&self, namespace: &str) -> WorkloadBudget {
        let held = {
            let mut shares = self.lock();
            (shares.requests.join(namespace), shares.bytes.join(namespace))
        };
        WorkloadBudget { process: self.clone(), held: Mutex::new(held) }
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock()
    }
}

// === impl WorkloadBudget ===

impl WorkloadBudget {
    /// Permits a request that retains so many bytes to wait.
    ///
    /// # Errors
    /// The bound that is reached.
    pub fn take(&self, bytes: u64) -> Result<HoldPermit<'_>, BudgetExceeded> {
        let mut shares = self.process.lock();
        let mut held = self.lock();
        let (requests, retained) = &mut *held;
        if !shares.requests.take(requests, 1) {
            return Err(BudgetExceeded::Requests(shares.requests.bound()));
        }
        if !shares.bytes.take(retained, bytes) {
            shares.requests.give_back(requests, 1);
            return Err(BudgetExceeded::Bytes(shares.bytes.bound()));
        }
        Ok(HoldPermit { of: self, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, (ShareHolding, ShareHolding)> {
        self.held.lock()
    }
}

impl Drop for WorkloadBudget {
    fn drop(&mut self) {
        let (requests, bytes) = std::mem::take(&mut *self.lock());
        let mut shares = self.process.lock();
        shares.requests.leave(requests);
        shares.bytes.leave(bytes);
    }
}

// === impl HoldPermit ===

impl Drop for HoldPermit<'_> {
    fn drop(&mut self) {
        let mut shares = self.of.process.lock();
        let mut held = self.of.lock();
        shares.requests.give_back(&mut held.0, 1);
        shares.bytes.give_back(&mut held.1, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn dropped_permit_is_available_again() {
        let process = HoldBudget::new(1, 100);
        let workload = process.join("shop");
        let permit = workload.take(100);
        assert_eq!(workload.take(1).unwrap_err(), BudgetExceeded::Requests(1));
        drop(permit);
        assert!(workload.take(100).is_ok());
    }

    #[test]
    fn rejection_for_bytes_leaves_request_count_unchanged() {
        let process = HoldBudget::new(10, 100);
        let (large, small) = (process.join("shop"), process.join("shop"));
        let permits: Vec<_> = (0..3).map(|_| large.take(25).unwrap()).collect();
        assert_eq!(large.take(25).unwrap_err(), BudgetExceeded::Bytes(100));
        assert!(small.take(25).is_ok(), "its own share");
        drop(permits);
        drop(small);
        let all: Vec<_> = (0..10).filter_map(|_| large.take(10).ok()).collect();
        assert_eq!(all.len(), 10);
    }

    #[test]
    fn namespace_with_many_workloads_leaves_another_its_share() {
        let process = HoldBudget::new(100, u64::MAX);
        let many: Vec<_> = (0..10).map(|_| process.join("many")).collect();
        let victim = process.join("victim");
        let flood: Vec<_> =
            many.iter().flat_map(|workload| (0..100).map_while(move |_| workload.take(1).ok())).collect();
        assert_eq!(flood.len(), 70);
        let held: Vec<_> = (0..25).map_while(|_| victim.take(1).ok()).collect();
        assert_eq!(held.len(), 25);
        assert_eq!(victim.take(1).unwrap_err(), BudgetExceeded::Requests(100));
    }

    #[test]
    fn estimate_includes_head_and_body_read_ahead() {
        let head = || Request::get("/abcd").header("name", "value").body(()).unwrap().into_parts().0;
        assert_eq!(retained_bytes(&head(), Some(0)), BASE_BYTES + 14);
        assert_eq!(retained_bytes(&head(), Some(10)), BASE_BYTES + 24);
        assert_eq!(retained_bytes(&head(), Some(1 << 30)), retained_bytes(&head(), None));
    }
}
