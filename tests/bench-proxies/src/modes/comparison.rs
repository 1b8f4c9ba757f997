//! The comparison of all proxies, which is the default mode: it measures, prints the figures and
//! checks the bounds.

mod bound_check;
mod campaign;
mod report;
mod results;
mod summary;

use anyhow::Result;
use bench_proxies::machine::{self, InterferenceMonitor};

pub(crate) use self::campaign::Campaign;
pub(crate) use self::summary::{Summary, median, spread, two_digits};

/// Runs the campaign, prints its report, and returns the number of missed bounds.
///
/// # Errors
/// When a proxy does not start, or fails under load.
pub(crate) fn run(campaign: &Campaign<'_>) -> Result<usize> {
    let (proxies, plan) = (campaign.proxies, &campaign.plan);
    println!("{}", machine::describe());
    for proxy in proxies {
        println!("{}: {}", proxy.name, proxy.version()?);
    }
    println!("{} rounds, {:?} for each measurement", plan.rounds, plan.duration);

    let monitor = InterferenceMonitor::start()?;
    let results = campaign.run()?;
    let interference = monitor.interference()?;

    report::print_figures(proxies, &results, &plan.connections)?;
    let checks = bound_check::all(proxies, &results, &plan.connections)?;
    report::print_checks(&checks);
    println!("\n{interference}");
    let missed = checks.iter().filter(|check| !check.met).count();
    println!("{missed} of {} bounds missed", checks.len());
    Ok(missed)
}
