//! What a run prints: a table for each number of connections and load, one of sizes, and the verdicts.

use anyhow::Result;

use crate::campaign::FIXED_LOAD;
use crate::proxy::{Proxy, REFERENCE};
use crate::results::{DIRECT, Load, Results, Sample};
use crate::summary::Summary;
use crate::table::{self, Table};
use crate::verdict::Verdict;

/// Prints the figures.
///
/// # Errors
/// When a binary is gone.
pub(crate) fn figures(proxies: &[Proxy], results: &Results, connections: &[usize]) -> Result<()> {
    for &connections in connections {
        let words = table::connections(connections);
        println!("\n{words}, saturated");
        print!("{}", speed(proxies, results, connections, Load::Saturating));
        println!("\n{words}, {:.0} % of what {REFERENCE} takes", FIXED_LOAD * 100.0);
        print!("{}", speed(proxies, results, connections, Load::Fixed));
    }
    println!("\nsizes (memory is resident, summed over processes)");
    print!("{}", sizes(proxies, results, connections)?);
    Ok(())
}

/// Prints the verdicts.
pub(crate) fn verdicts(verdicts: &[Verdict]) {
    let mut table = Table::new(&["", "bound", "found", ""]);
    for Verdict { proxy, what, met, bound, found } in verdicts {
        let word = if *met { "met" } else { "MISSED" };
        table.row(vec![format!("{proxy}: {what}"), bound.clone(), found.clone(), word.to_owned()]);
    }
    println!("\nbounds");
    print!("{table}");
}

fn speed(proxies: &[Proxy], results: &Results, connections: usize, load: Load) -> Table {
    let times = format!("× {REFERENCE}");
    let heads =
        ["", "rps", "±", &times, "p50", "p99", "± ", &times, "p99.9", "CPU/request", "in kernel", &times];
    let mut table = Table::new(&heads);
    for name in std::iter::once(DIRECT).chain(proxies.iter().map(|proxy| proxy.name)) {
        let figure = |figure| results.figure(name, connections, load, figure);
        let ratio =
            |figure| (name != DIRECT).then(|| results.ratio(name, connections, load, figure)).flatten();
        let cpu = figure(|sample: &Sample| sample.cpu).filter(|_| name != DIRECT);
        table.row(vec![
            name.to_owned(),
            median(figure(|sample| sample.rps), table::count),
            spread(figure(|sample| sample.rps)),
            median(ratio(|sample| sample.rps), times_reference),
            median(figure(|sample| sample.p50), table::latency),
            median(figure(|sample| sample.p99), table::latency),
            spread(figure(|sample| sample.p99)),
            median(ratio(|sample| sample.p99), times_reference),
            median(figure(|sample| sample.p999), table::latency),
            median(cpu, table::latency),
            median(cpu.and_then(|_| figure(|sample| sample.kernel)), |share| {
                format!("{:.0} %", share * 100.0)
            }),
            median(ratio(|sample| sample.cpu), times_reference),
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

fn median(summary: Option<Summary>, words: impl Fn(f64) -> String) -> String {
    summary.map(|summary| words(summary.median)).unwrap_or_default()
}

fn spread(summary: Option<Summary>) -> String {
    summary.map(|summary| format!("{:.0} %", summary.spread() * 100.0)).unwrap_or_default()
}

fn times_reference(ratio: f64) -> String {
    format!("{ratio:.2}")
}
