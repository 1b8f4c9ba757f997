//! Service: selects the backend of a request by the slices that the clients' node has.
//!
//! The zero-scaler writes the slices, and nodes use them after a delay. Therefore terminating pods
//! must still serve requests.

use autoscaler::routing::sks_mode::SksMode;
use rand::{Rng, RngExt};

use crate::workload::pod::PodId;
use crate::workload::request::ActivatorId;

/// Content of the EndpointSlices.
#[derive(Clone, Debug, PartialEq)]
pub struct Slices {
    /// Whether the slices contain pods or activators.
    pub mode: SksMode,
    /// The pods, in Serve.
    pub pods: Vec<PodId>,
    /// Number of activators, in Proxy.
    pub activators: usize,
}

/// Backend of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Pod(PodId),
    Activator(ActivatorId),
}

// === impl Slices ===

impl Slices {
    /// Whether an activator answers a probe of the Service.
    pub fn leads_to_activators(&self) -> bool {
        self.mode == SksMode::Proxy && self.activators > 0
    }

    /// A random backend, as kube-proxy selects; `None` if the slices are empty.
    pub fn pick(&self, random: &mut impl Rng) -> Option<Backend> {
        match self.mode {
            SksMode::Serve if self.pods.is_empty() => None,
            SksMode::Serve => {
                self.pods.get(random.random_range(0..self.pods.len())).copied().map(Backend::Pod)
            }
            SksMode::Proxy if self.activators == 0 => None,
            SksMode::Proxy => Some(Backend::Activator(random.random_range(0..self.activators))),
        }
    }
}
