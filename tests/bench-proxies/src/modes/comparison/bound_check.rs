//! BoundCheck: compares each proxy's figures with its bounds.

use std::time::Duration;

use bench_proxies::table;

use super::campaign::FIXED_LOAD;
use super::results::{Load, Results, Sample};
use super::summary::Summary;
use crate::proxies::{Bounds, Proxy, REFERENCE};

/// One bound, met or missed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundCheck {
    pub(crate) proxy: &'static str,
    pub(crate) figure: String,
    pub(crate) met: bool,
    pub(crate) bound: String,
    pub(crate) measured: String,
}

/// Checks one proxy.
struct BoundChecker<'a> {
    proxy: &'static str,
    results: &'a Results,
    connections: &'a [usize],
    checks: Vec<BoundCheck>,
}

/// Checks all proxies that have bounds.
///
/// # Errors
/// When a binary does not exist.
pub(crate) fn all(
    proxies: &[Proxy],
    results: &Results,
    connections: &[usize],
) -> anyhow::Result<Vec<BoundCheck>> {
    let mut checks = Vec::new();
    for proxy in proxies {
        if let Some(bounds) = proxy.bounds {
            let mut checker = BoundChecker { proxy: proxy.name, results, connections, checks: Vec::new() };
            checker.speed(bounds);
            checker.memory(bounds);
            checker.start(bounds, proxy.size()?);
            checks.append(&mut checker.checks);
        }
    }
    Ok(checks)
}

// === impl BoundChecker ===

impl BoundChecker<'_> {
    fn speed(&mut self, bounds: &Bounds) {
        for &connections in self.connections {
            let of = |load, figure: fn(&Sample) -> f64| {
                self.results.ratio(self.proxy, bounds.reference, connections, load, figure)
            };
            let rps = of(Load::Saturating, |sample| sample.rps);
            let cpu = of(Load::Saturating, |sample| sample.cpu);
            let p99 = of(Load::Fixed, |sample| sample.p99);
            let at = |figure: &str| format!("{figure}, {}", table::connections(connections));
            self.ratio(&at("requests per second"), rps, (bounds.rps, bounds.reference), |found, bound| {
                found >= bound
            });
            self.ratio(&at("CPU per request"), cpu, (bounds.cpu, bounds.reference), |found, bound| {
                found <= bound
            });
            let figure = format!("p99 at {:.0} % load", FIXED_LOAD * 100.0);
            if let Some(bound) = bounds.p99 {
                self.ratio(&at(&figure), p99, (bound, bounds.reference), |found, bound| found <= bound);
            }
        }
        if let Some(bound) = bounds.added_p50 {
            let added = self.results.added_ratio(self.proxy, 1, Load::Saturating, |sample| sample.p50);
            self.ratio("added p50, 1 connection", added, (bound, REFERENCE), |found, bound| found <= bound);
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
            let format = |bytes: u64| format!("{:.2} MB", bytes as f64 / 1e6);
            self.add("binary", size <= bound, format!("≤ {}", format(bound)), format(size));
        }
        if let (Some(bound), Some(found)) = (bounds.start, self.results.start(self.proxy)) {
            let met = found.median <= bound.as_secs_f64();
            let format = |time: Duration| table::latency(time.as_secs_f64());
            self.add("exec to listening", met, format!("≤ {}", format(bound)), table::latency(found.median));
        }
    }

    /// A figure without measurements misses its bound, which is a multiple of the reference's.
    fn ratio(
        &mut self,
        figure: &str,
        found: Option<Summary>,
        (bound, reference): (f64, &'static str),
        meets: fn(f64, f64) -> bool,
    ) {
        let sign = if meets(bound + 1.0, bound) { '≥' } else { '≤' };
        let met = found.is_some_and(|found| meets(found.median, bound));
        let measured = found.map_or("not measured".to_owned(), |found| {
            format!("{:.2} ({:.2} to {:.2})", found.median, found.least, found.greatest)
        });
        self.add(figure, met, format!("{sign} {bound:.2} × {reference}"), measured);
    }

    fn bytes(&mut self, figure: &str, found: Option<Summary>, bound: Option<u64>) {
        if let (Some(bound), Some(found)) = (bound, found) {
            let met = found.median <= bound as f64;
            self.add(figure, met, format!("≤ {}", table::bytes(bound as f64)), table::bytes(found.median));
        }
    }

    fn add(&mut self, figure: &str, met: bool, bound: String, measured: String) {
        self.checks.push(BoundCheck { proxy: self.proxy, figure: figure.to_owned(), met, bound, measured });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::comparison::results::DIRECT;

    const BOUNDS: Bounds = Bounds {
        reference: REFERENCE,
        rps: 1.0,
        cpu: 1.0,
        p99: Some(0.9),
        added_p50: Some(1.2),
        idle_memory: Some(8 << 20),
        memory: None,
        size: Some(6_000_000),
        start: Some(Duration::from_millis(10)),
    };

    fn sample(rps: f64, p99: f64) -> Sample {
        Sample { rps, p50: p99 / 2.0, p99, cpu: 1e-5, ..Sample::default() }
    }

    fn judged(ours: &Sample) -> Vec<BoundCheck> {
        let mut results = Results::default();
        for load in [Load::Saturating, Load::Fixed] {
            results.add(DIRECT, 1, load, sample(1.0, 1e-3));
            results.add(REFERENCE, 1, load, sample(100.0, 2e-3));
            results.add("ours", 1, load, ours.clone());
        }
        results.add_start("ours", Duration::from_millis(9));
        results.add_idle_memory("ours", 8 << 20);
        let mut checker =
            BoundChecker { proxy: "ours", results: &results, connections: &[1], checks: Vec::new() };
        checker.speed(&BOUNDS);
        checker.memory(&BOUNDS);
        checker.start(&BOUNDS, 6_000_000);
        checker.checks
    }

    fn missed(ours: &Sample) -> Vec<String> {
        judged(ours).into_iter().filter(|check| !check.met).map(|check| check.figure).collect()
    }

    #[test]
    fn meets_bound_at_exactly_its_value() {
        assert_eq!(missed(&sample(100.0, 1.8e-3)), Vec::<String>::new());
    }

    #[test]
    fn reports_each_missed_bound() {
        let ours = Sample { cpu: 2e-5, lost: 1.0, ..sample(99.0, 2.5e-3) };
        let figures = [
            "requests per second, 1 connection",
            "CPU per request, 1 connection",
            "p99 at 70 % load, 1 connection",
            "added p50, 1 connection",
            "requests lost",
        ];
        assert_eq!(missed(&ours), figures);
    }

    #[test]
    fn misses_bound_without_measurement() {
        let results = Results::default();
        let mut checker =
            BoundChecker { proxy: "ours", results: &results, connections: &[64], checks: Vec::new() };
        checker.speed(&BOUNDS);
        assert!(checker.checks.iter().filter(|check| check.met).all(|check| check.figure == "requests lost"));
    }
}
