//! The printed tables, and the bounds of our proxies.

use bench_proxies::table::{self, Table};

use super::load::{SHAPES, Shape};
use super::results::{DIRECT, Results, Sample};
use crate::modes::comparison::{Summary, median, spread, two_digits};
use crate::proxies::{HTTP2_REFERENCE, Proxy};

/// Least ratio of requests a second.
const RATE: f64 = 0.95;
/// Greatest ratio of CPU time per request.
const CPU: f64 = 1.2;

/// One bound, met or missed.
#[derive(Debug, PartialEq)]
pub(crate) struct Check {
    figure: String,
    bound: String,
    measured: String,
    met: bool,
}

/// Prints a table for each shape.
pub(crate) fn print_figures(proxies: &[Proxy], results: &Results) {
    for shape in SHAPES {
        println!("\nHTTP/2, connections × streams {shape}, saturated");
        print!("{}", figures(proxies, results, shape));
    }
}

fn figures(proxies: &[Proxy], results: &Results, shape: Shape) -> Table {
    let times = format!("× {HTTP2_REFERENCE}");
    let mut table = Table::new(&["", "rps", "±", &times, "CPU/request", &times]);
    for name in std::iter::once(DIRECT).chain(proxies.iter().map(|proxy| proxy.name)) {
        let of_proxy = |summary: Option<Summary>| summary.filter(|_| name != DIRECT);
        let rate = results.figure(name, shape, |sample| sample.rate);
        let cpu = of_proxy(results.figure(name, shape, |sample| sample.cpu));
        table.row(vec![
            name.to_owned(),
            median(rate, table::count),
            spread(rate),
            median(of_proxy(results.ratio(name, shape, |sample| sample.rate)), two_digits),
            median(cpu, table::latency),
            median(of_proxy(results.ratio(name, shape, |sample| sample.cpu)), two_digits),
        ]);
    }
    table
}

/// The bounds of the proxies that have some.
pub(crate) fn checks(proxies: &[Proxy], results: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for proxy in proxies.iter().filter(|proxy| proxy.bounds.is_some()) {
        checks.extend(checks_of(proxy.name, results));
    }
    checks
}

fn checks_of(name: &'static str, results: &Results) -> Vec<Check> {
    let mut checks = Vec::new();
    for shape in SHAPES {
        let of = |figure: fn(&Sample) -> f64| results.ratio(name, shape, figure);
        let rate = of(|sample| sample.rate);
        checks.push(Check {
            figure: format!("{name}: HTTP/2 requests per second, {shape}"),
            bound: format!("≥ {RATE:.2} × {HTTP2_REFERENCE}"),
            measured: median(rate, two_digits),
            met: rate.is_some_and(|rate| rate.median >= RATE),
        });
        let cpu = of(|sample| sample.cpu);
        checks.push(Check {
            figure: format!("{name}: HTTP/2 CPU per request, {shape}"),
            bound: format!("≤ {CPU:.2} × {HTTP2_REFERENCE}"),
            measured: median(cpu, two_digits),
            met: cpu.is_some_and(|cpu| cpu.median <= CPU),
        });
    }
    let failed = results.failed(name);
    checks.push(Check {
        figure: format!("{name}: HTTP/2 requests failed"),
        bound: "0".to_owned(),
        measured: failed.to_string(),
        met: failed == 0,
    });
    checks
}

/// Prints the bounds, and returns the number of missed ones.
pub(crate) fn print_checks(checks: &[Check]) -> usize {
    let mut table = Table::new(&["", "bound", "measured", ""]);
    for Check { figure, bound, measured, met } in checks {
        let result = if *met { "met" } else { "MISSED" };
        table.row(vec![figure.clone(), bound.clone(), measured.clone(), result.to_owned()]);
    }
    println!("\nbounds");
    print!("{table}");
    checks.iter().filter(|check| !check.met).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(rate: f64, cpu: f64, failed: u64) -> Vec<String> {
        let mut results = Results::default();
        for shape in SHAPES {
            results.add(HTTP2_REFERENCE, shape, Sample { rate: 100.0, cpu: 1e-5, failed: 0 });
            results.add("ours", shape, Sample { rate, cpu, failed });
        }
        let checks = checks_of("ours", &results).into_iter();
        checks.filter(|check| !check.met).map(|check| check.figure).collect()
    }

    #[test]
    fn meets_bounds_near_their_values() {
        assert_eq!(missed(95.0, 1.19e-5, 0), Vec::<String>::new());
    }

    #[test]
    fn reports_each_missed_bound() {
        assert_eq!(missed(94.0, 1e-5, 0).len(), SHAPES.len());
        assert_eq!(missed(95.0, 1.3e-5, 0).len(), SHAPES.len());
        assert_eq!(missed(95.0, 1e-5, 1), ["ours: HTTP/2 requests failed"]);
    }

    #[test]
    fn misses_bounds_without_measurements() {
        assert_eq!(checks_of("ours", &Results::default()).iter().filter(|check| check.met).count(), 1);
    }
}
