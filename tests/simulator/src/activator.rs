//! Activator: holds requests until a pod has a free slot, and reports its load.
//!
//! The caller invokes [`settle`](Activator::settle) after each change of state. It returns the
//! requests that may go to a pod now and the messages to the other activators. The first request of
//! a workload without traffic here is reported at once: the poke.

pub mod pod_slots;

use autoscaler::routing::slot_lending::{Slot, SlotMessage, WaitingRequests};
use autoscaler::stats::{RequestStats, Stat};
use rand::Rng;

use crate::activator::pod_slots::{PeerMessages, PodSlots};
use crate::clock::{Time, instant, unix};
use crate::workload::hold_queue::HoldQueue;
use crate::workload::pod::PodId;
use crate::workload::request::{ActivatorId, Request};

/// Bound of the queue of one activator.
const QUEUE_DEPTH: usize = 10_000;

/// The state of one activator for the workload.
#[derive(Debug)]
pub struct Activator {
    queue: HoldQueue,
    slots: PodSlots,
    /// `None` while no request of the workload passes here.
    stats: Option<RequestStats>,
    /// Requests that a poke has reported ahead of the periodic stat.
    announced: u64,
}

// === impl Activator ===

impl Activator {
    /// An activator without pods.
    pub fn new(slots: PodSlots) -> Self {
        Self { queue: HoldQueue::new(QUEUE_DEPTH), slots, stats: None, announced: 0 }
    }

    /// Counts a request in. Returns the poke if it is the first.
    pub fn request_in(&mut self, now: Time) -> Option<Stat> {
        let first = self.stats.is_none();
        self.stats.get_or_insert_with(|| RequestStats::new(instant(now))).request_in(instant(now), false);
        self.announced += u64::from(first);
        first.then(|| stat(1.0, 1.0, now))
    }

    /// Counts a request out, whatever its result.
    pub fn request_out(&mut self, now: Time) {
        if let Some(stats) = &mut self.stats {
            stats.request_out(instant(now), false);
        }
    }

    /// Queues a request; false if the queue is full.
    #[must_use]
    pub fn hold(&mut self, request: Request) -> bool {
        self.queue.push(request)
    }

    /// Removes and returns a held request, after its client timeout; `None` if it is on a pod.
    pub fn remove(&mut self, id: u64) -> Option<Request> {
        self.queue.remove(id)
    }

    /// Sets the ready pods.
    pub fn set_pods(&mut self, pods: &[PodId]) {
        self.slots.set_pods(pods);
    }

    /// Sets the requests that a pod without a limit of its own may have at a time.
    pub fn set_limit(&mut self, limit: Option<u32>) {
        self.slots.set_limit(limit);
    }

    /// Frees the slot of a request that has ended.
    pub fn release(&mut self, pod: PodId, request: &Request, now: Time) {
        self.slots.release(Slot { pod, lender: request.lender }, now);
    }

    /// Handles a message of another activator.
    pub fn receive(&mut self, from: ActivatorId, message: SlotMessage<PodId>, now: Time) {
        self.slots.receive(from, message, now);
    }

    /// Takes free slots for held requests. Returns these requests with their pods, and the messages
    /// to the other activators.
    pub fn settle(&mut self, now: Time, random: &mut impl Rng) -> (Vec<(PodId, Request)>, PeerMessages) {
        let mut placed = Vec::new();
        while !self.queue.is_empty()
            && let Some(slot) = self.slots.take(random)
            && let Some(request) = self.queue.pop()
        {
            placed.push((slot.pod, Request { lender: slot.lender, ..request }));
        }
        let requests = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let oldest = self.queue.front().map_or(now, |request| request.arrived);
        (placed, self.slots.settle(WaitingRequests { requests, oldest }, now))
    }

    /// Arrival time of the oldest held request.
    pub fn oldest_held(&self) -> Option<Time> {
        self.queue.front().map(|request| request.arrived)
    }

    /// Number of held requests.
    pub fn held(&self) -> usize {
        self.queue.len()
    }

    /// Ends a reporting period; `None` if no request of the workload passes here. The first period
    /// without traffic is still reported, as the last one.
    pub fn end_period(&mut self, now: Time) -> Option<Stat> {
        let stats = self.stats.as_mut()?;
        let report = stats.report(instant(now));
        let announced = std::mem::take(&mut self.announced);
        if report.average_concurrency == 0.0 && stats.in_flight() == 0 {
            self.stats = None;
        }
        let concurrency = (report.average_concurrency - announced as f64).max(0.0);
        let arrived = report.request_count.saturating_sub(announced) as f64;
        let seconds = report.period.as_secs_f64();
        Some(stat(concurrency, if seconds > 0.0 { arrived / seconds } else { 0.0 }, now))
    }
}

fn stat(concurrency: f64, requests_per_second: f64, now: Time) -> Stat {
    Stat {
        average_concurrent_requests: concurrency,
        request_count: requests_per_second,
        timestamp: i64::try_from(unix(now).as_secs()).unwrap_or(i64::MAX),
        ..Stat::default()
    }
}
