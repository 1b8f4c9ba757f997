//! App: what limits the requests inside a pod.
//!
//! [`AppModel`] is part of the scenario, [`App`] the state of one pod's container. The simulation
//! enters requests that the queue-proxy admitted and schedules the returned ends. The pool of a
//! shared dependency belongs to all pods, so it is a [`ServerQueue`] of the simulation itself.

use std::time::Duration;

use crate::clock::Time;
use crate::workload::processor_sharing::ProcessorSharing;
use crate::workload::request::Request;
use crate::workload::server_queue::ServerQueue;

/// What limits the requests inside a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppModel {
    /// Nothing: each request takes its service time.
    Unlimited,
    /// This many requests are served at a time; others wait inside the app, in order of arrival.
    Queue {
        /// Requests that are served at a time.
        servers: usize,
    },
    /// Requests share cores and then wait without CPU. Their service time is CPU time.
    Cpu {
        /// Cores of the container.
        cores: f64,
        /// Wait after the CPU time.
        wait: Duration,
    },
    /// Each request needs memory. Above the limit the container is killed.
    Memory {
        /// Bytes without requests.
        base: u64,
        /// Bytes for each request.
        per_request: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// All pods together have this many slots; other requests wait for one.
    Dependency {
        /// Slots of all pods together.
        slots: usize,
    },
}

/// State of one pod's app.
#[derive(Debug, Default)]
pub struct App {
    /// Requests in the app of model [`AppModel::Queue`].
    pub servers: ServerQueue<Request>,
    /// Requests in the CPU phase of model [`AppModel::Cpu`].
    pub processor: ProcessorSharing,
    /// All requests in the app of model [`AppModel::Memory`].
    resident: Vec<Request>,
    killed_at: Option<Time>,
}

// === impl AppModel ===

impl AppModel {
    /// Memory in bytes with this many requests; `None` for models without memory.
    pub fn memory(self, requests: usize) -> Option<u64> {
        let Self::Memory { base, per_request, .. } = self else { return None };
        Some(base.saturating_add(per_request.saturating_mul(requests as u64)))
    }

    /// Memory with this many requests as a share of the limit; `None` for models without memory.
    pub fn memory_share(self, requests: usize) -> Option<f64> {
        let Self::Memory { limit, .. } = self else { return None };
        self.memory(requests).map(|used| used as f64 / limit as f64)
    }

    /// CPU limit in cores; `None` for models without CPU.
    pub fn cpu_limit(self) -> Option<f64> {
        if let Self::Cpu { cores, .. } = self { Some(cores) } else { None }
    }

    /// Whether this many requests exceed the memory limit.
    pub fn exceeds_memory(self, requests: usize) -> bool {
        let Self::Memory { limit, .. } = self else { return false };
        self.memory(requests).is_some_and(|used| used > limit)
    }
}

// === impl App ===

impl App {
    /// Adds a request that a kill would end.
    pub fn reside(&mut self, request: Request) {
        self.resident.push(request);
    }

    /// Ends a request; false if a kill ended it before.
    pub fn leave(&mut self, request: &Request) -> bool {
        if let Some(place) = self.resident.iter().position(|resident| resident.id == request.id) {
            self.resident.swap_remove(place);
        }
        self.killed_at.is_none_or(|killed_at| request.started > killed_at)
    }

    /// Kills the container. Returns the requests that fail.
    pub fn kill(&mut self, now: Time) -> Vec<Request> {
        self.killed_at = Some(now);
        std::mem::take(&mut self.resident)
    }
}
