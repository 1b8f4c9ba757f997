//! Everything that was measured, by proxy, number of connections and load, a sample a round.
//!
//! Ratios are taken within a round, between measurements some seconds apart, and only then summarised: what slows the machine
//! for a while slows both sides.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::load::Tally;
use crate::proxy::REFERENCE;
use crate::summary::Summary;

/// The backend without a proxy.
pub(crate) const DIRECT: &str = "direct";

/// What was put on a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Load {
    /// As much as it takes.
    Saturating,
    /// The same for all: a share of what the reference takes.
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
    /// Share of it in the kernel.
    pub(crate) kernel: f64,
    /// Bytes resident at the end, all connections still open.
    pub(crate) memory: f64,
    /// Requests that were not answered 200.
    pub(crate) lost: f64,
}

/// What a proxy is before any load.
#[derive(Clone, Debug, Default)]
pub(crate) struct AtRest {
    /// From exec until it listens, each time, in seconds.
    pub(crate) start: Vec<f64>,
    /// Bytes resident after the first answer, each time.
    pub(crate) memory: Vec<f64>,
}

type Key = (&'static str, usize, Load);

/// Samples in order of rounds.
#[derive(Default)]
pub(crate) struct Results {
    samples: BTreeMap<Key, Vec<Sample>>,
    at_rest: BTreeMap<&'static str, AtRest>,
}

// === impl Sample ===

impl Sample {
    pub(crate) fn new(tally: &Tally) -> Self {
        let quantile = |share| tally.quantile(share).as_secs_f64();
        Self {
            rps: tally.rate(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            lost: (tally.failed + tally.unanswered) as f64,
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
        self.at_rest.entry(proxy).or_default().start.push(start.as_secs_f64());
    }

    pub(crate) fn add_idle_memory(&mut self, proxy: &'static str, bytes: u64) {
        self.at_rest.entry(proxy).or_default().memory.push(bytes as f64);
    }

    pub(crate) fn start(&self, proxy: &str) -> Option<Summary> {
        Summary::of(self.at_rest.get(proxy)?.start.iter().copied())
    }

    pub(crate) fn idle_memory(&self, proxy: &str) -> Option<Summary> {
        Summary::of(self.at_rest.get(proxy)?.memory.iter().copied())
    }

    /// The reference's last saturated rate.
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

    /// The figure as a ratio to the reference's, round by round.
    pub(crate) fn ratio(
        &self,
        proxy: &'static str,
        connections: usize,
        load: Load,
        figure: fn(&Sample) -> f64,
    ) -> Option<Summary> {
        let ours = self.of(proxy, connections, load).iter().map(figure);
        let theirs = self.of(REFERENCE, connections, load).iter().map(figure);
        Summary::of(ours.zip(theirs).map(|(ours, theirs)| ours / theirs))
    }

    /// What a proxy adds to the figure of the direct way, as a ratio to what the reference adds.
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

    /// Requests of all measurements that were not answered 200.
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
    fn a_slow_round_slows_both_sides_of_a_ratio() {
        let results = results(&[(REFERENCE, [10.0, 30.0, 11.0]), ("ours", [5.0, 15.0, 11.0])]);
        let ratio = results.ratio("ours", 1, Load::Saturating, |sample| sample.p50).unwrap();
        assert_eq!(ratio, Summary { median: 0.5, least: 0.5, greatest: 1.0 });
        assert_eq!(results.ratio("ours", 64, Load::Saturating, |sample| sample.p50), None);
    }

    #[test]
    fn what_is_added_is_beyond_the_direct_way() {
        let all =
            [(DIRECT, [10.0, 10.0, 20.0]), (REFERENCE, [20.0, 20.0, 40.0]), ("ours", [25.0, 25.0, 30.0])];
        let results = results(&all);
        let added = results.added_ratio("ours", 1, Load::Saturating, |sample| sample.p50).unwrap();
        assert_eq!(added, Summary { median: 1.5, least: 0.5, greatest: 1.5 });
    }

    #[test]
    fn every_lost_request_is_counted() {
        assert_eq!(results(&[(REFERENCE, [1.0; 3]), ("ours", [1.0; 3])]).lost("ours"), 3.0);
    }
}
