//! Results: one sample a round for each proxy, number of connections and load.
//!
//! Ratios are computed within a round, between measurements some seconds apart, and then
//! summarised. A machine that is slow for some time thus slows both sides of a ratio.

use std::collections::BTreeMap;
use std::time::Duration;

use super::summary::Summary;
use crate::proxies::REFERENCE;
use crate::traffic::LoadStats;

/// The backend without a proxy.
pub(crate) const DIRECT: &str = "direct";

/// The load of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// As many requests as the proxy can serve.
    Saturating,
    /// The same rate for all proxies: a share of the reference's saturated rate.
    Fixed,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) rps: f64,
    /// Latencies, in seconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// CPU time of the proxy per request, in seconds.
    pub(crate) cpu: f64,
    /// Share of the CPU time in the kernel.
    pub(crate) kernel: f64,
    /// Resident bytes at the end, with all connections open.
    pub(crate) memory: f64,
    /// Requests without a response of status 200.
    pub(crate) lost: f64,
}

/// Figures of a proxy before any load.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleFigures {
    /// Time from exec until the proxy listens, in seconds, for each start.
    pub(crate) start: Vec<f64>,
    /// Resident bytes after the first response, for each round.
    pub(crate) memory: Vec<f64>,
}

type Key = (&'static str, usize, Load);

/// Samples in order of rounds.
#[derive(Default)]
pub(crate) struct Results {
    samples: BTreeMap<Key, Vec<Sample>>,
    idle: BTreeMap<&'static str, IdleFigures>,
}

// === impl Sample ===

impl Sample {
    pub(crate) fn new(stats: &LoadStats) -> Self {
        let quantile = |share| stats.quantile(share).as_secs_f64();
        Self {
            rps: stats.rate(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            lost: (stats.failed + stats.unanswered) as f64,
            ..Self::default()
        }
    }
}

// === impl Results ===

impl Results {
    pub(crate) fn add(&mut self, proxy: &'static str, connections: usize, load: Load, sample: Sample) {
        self.samples.entry((proxy, connections, load)).or_default().push(sample);
    }

    pub(crate) fn add_start(&mut self, proxy: &'static str, start: Duration) {
        self.idle.entry(proxy).or_default().start.push(start.as_secs_f64());
    }

    pub(crate) fn add_idle_memory(&mut self, proxy: &'static str, bytes: u64) {
        self.idle.entry(proxy).or_default().memory.push(bytes as f64);
    }

    pub(crate) fn start(&self, proxy: &str) -> Option<Summary> {
        Summary::of(self.idle.get(proxy)?.start.iter().copied())
    }

    pub(crate) fn idle_memory(&self, proxy: &str) -> Option<Summary> {
        Summary::of(self.idle.get(proxy)?.memory.iter().copied())
    }

    /// The reference's saturated rate in the last round.
    pub(crate) fn last_reference_rate(&self, connections: usize) -> Option<f64> {
        self.of(REFERENCE, connections, Load::Saturating).last().map(|sample| sample.rps)
    }

    /// A figure over all rounds.
    pub(crate) fn figure(
        &self,
        proxy: &'static str,
        connections: usize,
        load: Load,
        figure: fn(&Sample) -> f64,
    ) -> Option<Summary> {
        Summary::of(self.of(proxy, connections, load).iter().map(figure))
    }

    /// The figure as a ratio to the figure of `reference`, round by round.
    pub(crate) fn ratio(
        &self,
        proxy: &'static str,
        reference: &'static str,
        connections: usize,
        load: Load,
        figure: fn(&Sample) -> f64,
    ) -> Option<Summary> {
        let ours = self.of(proxy, connections, load).iter().map(figure);
        let theirs = self.of(reference, connections, load).iter().map(figure);
        Summary::of(ours.zip(theirs).map(|(ours, theirs)| ours / theirs))
    }

    /// The proxy's overhead over the direct path, as a ratio to the reference's overhead.
    pub(crate) fn added_ratio(
        &self,
        proxy: &'static str,
        connections: usize,
        load: Load,
        figure: fn(&Sample) -> f64,
    ) -> Option<Summary> {
        let of = |name| self.of(name, connections, load).iter().map(figure);
        let rounds = of(DIRECT).zip(of(REFERENCE)).zip(of(proxy));
        Summary::of(rounds.map(|((direct, reference), ours)| (ours - direct) / (reference - direct)))
    }

    /// Requests without a response of status 200, over all measurements.
    pub(crate) fn lost(&self, proxy: &str) -> f64 {
        let of_proxy = self.samples.iter().filter(|((name, ..), _)| *name == proxy);
        of_proxy.flat_map(|(_, samples)| samples).map(|sample| sample.lost).sum()
    }

    fn of(&self, proxy: &'static str, connections: usize, load: Load) -> &[Sample] {
        self.samples.get(&(proxy, connections, load)).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(figures: &[(&'static str, [f64; 3])]) -> Results {
        let mut results = Results::default();
        for (proxy, p50) in figures {
            for p50 in *p50 {
                results.add(proxy, 1, Load::Saturating, Sample { p50, lost: 1.0, ..Sample::default() });
            }
        }
        results
    }

    #[test]
    fn computes_ratios_within_each_round() {
        let results = results(&[(REFERENCE, [10.0, 30.0, 11.0]), ("ours", [5.0, 15.0, 11.0])]);
        let ratio = results.ratio("ours", REFERENCE, 1, Load::Saturating, |sample| sample.p50).unwrap();
        assert_eq!(ratio, Summary { median: 0.5, least: 0.5, greatest: 1.0 });
        assert_eq!(results.ratio("ours", REFERENCE, 64, Load::Saturating, |sample| sample.p50), None);
    }

    #[test]
    fn subtracts_the_direct_path_from_the_added_latency() {
        let all =
            [(DIRECT, [10.0, 10.0, 20.0]), (REFERENCE, [20.0, 20.0, 40.0]), ("ours", [25.0, 25.0, 30.0])];
        let results = results(&all);
        let added = results.added_ratio("ours", 1, Load::Saturating, |sample| sample.p50).unwrap();
        assert_eq!(added, Summary { median: 1.5, least: 0.5, greatest: 1.5 });
    }

    #[test]
    fn counts_every_lost_request() {
        assert_eq!(results(&[(REFERENCE, [1.0; 3]), ("ours", [1.0; 3])]).lost("ours"), 3.0);
    }
}
