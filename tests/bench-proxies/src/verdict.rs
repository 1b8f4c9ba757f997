//! What a proxy was to reach, against what it reached.

use std::time::Duration;

use crate::campaign::FIXED_LOAD;
use crate::proxy::{Bounds, Proxy, REFERENCE};
use crate::results::{Load, Results, Sample};
use crate::summary::Summary;
use crate::table;

/// One bound, met or missed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) proxy: &'static str,
    /// What is bound.
    pub(crate) what: String,
    pub(crate) met: bool,
    /// What was asked.
    pub(crate) bound: String,
    /// What was found.
    pub(crate) found: String,
}

/// Judges one proxy.
struct Judge<'a> {
    proxy: &'static str,
    results: &'a Results,
    connections: &'a [usize],
    verdicts: Vec<Verdict>,
}

/// Verdicts on all proxies that have bounds.
///
/// # Errors
/// When a binary is gone.
pub(crate) fn all(
    proxies: &[Proxy],
    results: &Results,
    connections: &[usize],
) -> anyhow::Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for proxy in proxies {
        if let Some(bounds) = proxy.bounds {
            let mut judge = Judge { proxy: proxy.name, results, connections, verdicts: Vec::new() };
            judge.speed(bounds);
            judge.memory(bounds);
            judge.start(bounds, proxy.size()?);
            verdicts.append(&mut judge.verdicts);
        }
    }
    Ok(verdicts)
}

// === impl Judge ===

impl Judge<'_> {
    fn speed(&mut self, bounds: &Bounds) {
        for &connections in self.connections {
            let of =
                |load, figure: fn(&Sample) -> f64| self.results.ratio(self.proxy, connections, load, figure);
            let rps = of(Load::Saturating, |sample| sample.rps);
            let cpu = of(Load::Saturating, |sample| sample.cpu);
            let p99 = of(Load::Fixed, |sample| sample.p99);
            let at = |what: &str| format!("{what}, {}", table::connections(connections));
            self.ratio(&at("requests a second"), rps, bounds.rps, |found, bound| found >= bound);
            self.ratio(&at("CPU per request"), cpu, bounds.cpu, |found, bound| found <= bound);
            let what = format!("p99 at {:.0} % load", FIXED_LOAD * 100.0);
            self.ratio(&at(&what), p99, bounds.p99, |found, bound| found <= bound);
        }
        if let Some(bound) = bounds.added_p50 {
            let added = self.results.added_ratio(self.proxy, 1, Load::Saturating, |sample| sample.p50);
            self.ratio("added p50, 1 connection", added, bound, |found, bound| found <= bound);
        }
        let lost = self.results.lost(self.proxy);
        self.add("requests lost", lost == 0.0, "0".to_owned(), format!("{lost}"));
    }

    fn memory(&mut self, bounds: &Bounds) {
        let most = self.connections.iter().copied().max().unwrap_or_default();
        let full = self.results.figure(self.proxy, most, Load::Saturating, |sample| sample.memory);
        self.bytes("RSS, idle", self.results.idle_memory(self.proxy), bounds.idle_memory);
        self.bytes(&format!("RSS, {}", table::connections(most)), full, bounds.memory);
    }

    fn start(&mut self, bounds: &Bounds, size: u64) {
        if let Some(bound) = bounds.size {
            let words = |bytes: u64| format!("{:.2} MB", bytes as f64 / 1e6);
            self.add("binary", size <= bound, format!("≤ {}", words(bound)), words(size));
        }
        if let (Some(bound), Some(found)) = (bounds.start, self.results.start(self.proxy)) {
            let met = found.median <= bound.as_secs_f64();
            let words = |time: Duration| table::latency(time.as_secs_f64());
            self.add("exec to listening", met, format!("≤ {}", words(bound)), table::latency(found.median));
        }
    }

    /// What was not measured is missed.
    fn ratio(&mut self, what: &str, found: Option<Summary>, bound: f64, meets: fn(f64, f64) -> bool) {
        let sign = if meets(bound + 1.0, bound) { '≥' } else { '≤' };
        let met = found.is_some_and(|found| meets(found.median, bound));
        let words = found.map_or("not measured".to_owned(), |found| {
            format!("{:.2} ({:.2} to {:.2})", found.median, found.least, found.greatest)
        });
        self.add(what, met, format!("{sign} {bound:.2} × {REFERENCE}"), words);
    }

    fn bytes(&mut self, what: &str, found: Option<Summary>, bound: Option<u64>) {
        if let (Some(bound), Some(found)) = (bound, found) {
            let met = found.median <= bound as f64;
            self.add(what, met, format!("≤ {}", table::bytes(bound as f64)), table::bytes(found.median));
        }
    }

    fn add(&mut self, what: &str, met: bool, bound: String, found: String) {
        self.verdicts.push(Verdict { proxy: self.proxy, what: what.to_owned(), met, bound, found });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::DIRECT;

    const BOUNDS: Bounds = Bounds {
        rps: 1.0,
        cpu: 1.0,
        p99: 0.9,
        added_p50: Some(1.2),
        idle_memory: Some(8 << 20),
        memory: None,
        size: Some(6_000_000),
        start: Some(Duration::from_millis(10)),
    };

    fn sample(rps: f64, p99: f64) -> Sample {
        Sample { rps, p50: p99 / 2.0, p99, cpu: 1e-5, ..Sample::default() }
    }

    fn judged(ours: &Sample) -> Vec<Verdict> {
        let mut results = Results::default();
        for load in [Load::Saturating, Load::Fixed] {
            results.add(DIRECT, 1, load, sample(1.0, 1e-3));
            results.add(REFERENCE, 1, load, sample(100.0, 2e-3));
            results.add("ours", 1, load, ours.clone());
        }
        results.add_start("ours", Duration::from_millis(9));
        results.add_idle_memory("ours", 8 << 20);
        let mut judge = Judge { proxy: "ours", results: &results, connections: &[1], verdicts: Vec::new() };
        judge.speed(&BOUNDS);
        judge.memory(&BOUNDS);
        judge.start(&BOUNDS, 6_000_000);
        judge.verdicts
    }

    fn missed(ours: &Sample) -> Vec<String> {
        judged(ours).into_iter().filter(|verdict| !verdict.met).map(|verdict| verdict.what).collect()
    }

    #[test]
    fn what_just_reaches_its_bound_has_met_it() {
        assert_eq!(missed(&sample(100.0, 1.8e-3)), Vec::<String>::new());
    }

    #[test]
    fn each_bound_can_be_missed() {
        let ours = Sample { cpu: 2e-5, lost: 1.0, ..sample(99.0, 2.5e-3) };
        let what = [
            "requests a second, 1 connection",
            "CPU per request, 1 connection",
            "p99 at 70 % load, 1 connection",
            "added p50, 1 connection",
            "requests lost",
        ];
        assert_eq!(missed(&ours), what);
    }

    #[test]
    fn what_was_not_measured_has_not_met_its_bound() {
        let results = Results::default();
        let mut judge = Judge { proxy: "ours", results: &results, connections: &[64], verdicts: Vec::new() };
        judge.speed(&BOUNDS);
        assert!(
            judge
                .verdicts
                .iter()
                .filter(|verdict| verdict.met)
                .all(|verdict| verdict.what == "requests lost")
        );
    }
}
