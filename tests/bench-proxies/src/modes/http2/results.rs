//! Results: one sample a round for each proxy and shape. Ratios are taken within a round.

use std::collections::BTreeMap;

use super::load::Shape;
use crate::modes::comparison::Summary;
use crate::proxies::HTTP2_REFERENCE;

/// The backend without a proxy.
pub(crate) const DIRECT: &str = "direct";

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Requests a second.
    pub(crate) rate: f64,
    /// CPU time of the proxy per request, in seconds.
    pub(crate) cpu: f64,
    pub(crate) failed: u64,
}

/// Samples in order of rounds.
#[derive(Debug, Default)]
pub(crate) struct Results {
    samples: BTreeMap<(&'static str, Shape), Vec<Sample>>,
}

// === impl Results ===

impl Results {
    pub(crate) fn add(&mut self, proxy: &'static str, shape: Shape, sample: Sample) {
        self.samples.entry((proxy, shape)).or_default().push(sample);
    }

    /// A figure over all rounds.
    pub(crate) fn figure(
        &self,
        proxy: &'static str,
        shape: Shape,
        figure: fn(&Sample) -> f64,
    ) -> Option<Summary> {
        Summary::of(self.of(proxy, shape).iter().map(figure))
    }

    /// The figure as a ratio to the reference's, round by round.
    pub(crate) fn ratio(
        &self,
        proxy: &'static str,
        shape: Shape,
        figure: fn(&Sample) -> f64,
    ) -> Option<Summary> {
        let ours = self.of(proxy, shape).iter().map(figure);
        let theirs = self.of(HTTP2_REFERENCE, shape).iter().map(figure);
        Summary::of(ours.zip(theirs).map(|(ours, theirs)| ours / theirs))
    }

    /// Failed requests, over all measurements.
    pub(crate) fn failed(&self, proxy: &str) -> u64 {
        let of_proxy = self.samples.iter().filter(|((name, _), _)| *name == proxy);
        of_proxy.flat_map(|(_, samples)| samples).map(|sample| sample.failed).sum()
    }

    fn of(&self, proxy: &'static str, shape: Shape) -> &[Sample] {
        self.samples.get(&(proxy, shape)).map(Vec::as_slice).unwrap_or_default()
    }
}
