//! The printed report: a table for each number of connections and load, one of sizes, and one of
//! the bounds.

use anyhow::Result;

use bench_proxies::table::{self, Table};

use super::bound_check::BoundCheck;
use super::campaign::FIXED_LOAD;
use super::results::{DIRECT, Load, Results, Sample};
use super::summary::{median, spread, two_digits};
use crate::proxies::{Proxy, REFERENCE};

/// Prints the measured figures.
///
/// # Errors
/// When a binary does not exist.
pub(crate) fn print_figures(proxies: &[Proxy], results: &Results, connections: &[usize]) -> Result<()> {
    for &connections in connections {
        let heading = table::connections(connections);
        println!("\n{heading}, saturated");
        print!("{}", speed(proxies, results, connections, Load::Saturating));
        println!("\n{heading}, {:.0} % of {REFERENCE}'s saturated rate", FIXED_LOAD * 100.0);
        print!("{}", speed(proxies, results, connections, Load::Fixed));
    }
    println!("\nbinary size, start time and memory (resident, summed over processes)");
    print!("{}", sizes(proxies, results, connections)?);
    Ok(())
}

/// Prints the bounds, met or missed.
pub(crate) fn print_checks(checks: &[BoundCheck]) {
    let mut table = Table::new(&["", "bound", "measured", ""]);
    for BoundCheck { proxy, figure, met, bound, measured } in checks {
        let result = if *met { "met" } else { "MISSED" };
        table.row(vec![format!("{proxy}: {figure}"), bound.clone(), measured.clone(), result.to_owned()]);
    }
    println!("\nbounds");
    print!("{table}");
}

fn speed(proxies: &[Proxy], results: &Results, connections: usize, load: Load) -> Table {
    let times = format!("× {REFERENCE}");
    let headings =
        ["", "rps", "±", &times, "p50", "p99", "± ", &times, "p99.9", "CPU/request", "in kernel", &times];
    let mut table = Table::new(&headings);
    for name in std::iter::once(DIRECT).chain(proxies.iter().map(|proxy| proxy.name)) {
        let figure = |figure| results.figure(name, connections, load, figure);
        let ratio = |figure| {
            (name != DIRECT).then(|| results.ratio(name, REFERENCE, connections, load, figure)).flatten()
        };
        let cpu = figure(|sample: &Sample| sample.cpu).filter(|_| name != DIRECT);
        table.row(vec![
            name.to_owned(),
            median(figure(|sample| sample.rps), table::count),
            spread(figure(|sample| sample.rps)),
            median(ratio(|sample| sample.rps), two_digits),
            median(figure(|sample| sample.p50), table::latency),
            median(figure(|sample| sample.p99), table::latency),
            spread(figure(|sample| sample.p99)),
            median(ratio(|sample| sample.p99), two_digits),
            median(figure(|sample| sample.p999), table::latency),
            median(cpu, table::latency),
            median(cpu.and_then(|_| figure(|sample| sample.kernel)), |share| {
                format!("{:.0} %", share * 100.0)
            }),
            median(ratio(|sample| sample.cpu), two_digits),
        ]);
    }
    table
}

fn sizes(proxies: &[Proxy], results: &Results, connections: &[usize]) -> Result<Table> {
    let most = connections.iter().copied().max().unwrap_or_default();
    let at_most = table::connections(most);
    let mut table = Table::new(&["", "binary", "exec to listening", "±", "idle", &at_most]);
    for proxy in proxies {
        let full = results.figure(proxy.name, most, Load::Saturating, |sample| sample.memory);
        table.row(vec![
            proxy.name.to_owned(),
            format!("{:.2} MB", proxy.size()? as f64 / 1e6),
            median(results.start(proxy.name), table::latency),
            spread(results.start(proxy.name)),
            median(results.idle_memory(proxy.name), table::bytes),
            median(full, table::bytes),
        ]);
    }
    Ok(table)
}
