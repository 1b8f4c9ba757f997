//! Service: where a client's request goes, by the slices as the nodes know them.
//!
//! Written by the zero-scaler, seen a little later by everybody: that delay is why pods that leave must go on answering.

use autoscaler::routing::sks_mode::SksMode;
use rand::{Rng, RngExt};

use crate::workload::pod::PodId;
use crate::workload::request::ActivatorId;

/// What the slices say.
#[derive(Clone, Debug, PartialEq)]
pub struct Slices {
    /// Whether they hold pods or activators.
    pub mode: SksMode,
    /// The pods, in Serve.
    pub pods: Vec<PodId>,
    /// How many activators there are, in Proxy.
    pub activators: usize,
}

/// Where one request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// To a pod.
    Pod(PodId),
    /// To an activator.
    Activator(ActivatorId),
}

// === impl Slices ===

impl Slices {
    /// Whether a probe of the Service is answered by an activator.
    pub fn leads_to_activators(&self) -> bool {
        self.mode == SksMode::Proxy && self.activators > 0
    }

    /// A backend, at random as kube-proxy does; `None` if the slices are empty.
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
