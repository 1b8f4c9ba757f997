//! The comparison over HTTP/2 on both sides of each proxy: rate and CPU time per request.
//!
//! ```text
//!   h2load ─► proxy (one at a time) ─► nghttpd
//! ```

mod campaign;
mod load;
mod report;
mod results;

use anyhow::Result;

pub(crate) use self::campaign::Tools;
use crate::args::MeasurementPlan;
use crate::proxies::Proxy;

/// Measures all proxies, prints the figures, and returns the number of missed bounds.
///
/// # Errors
/// When a program does not start, or a proxy fails under load.
pub(crate) fn run(tools: &Tools<'_>, proxies: &[Proxy], plan: &MeasurementPlan) -> Result<usize> {
    println!("\nHTTP/2: {}", tools.versions()?);
    for proxy in proxies {
        println!("{}: {}", proxy.name, proxy.version()?);
    }
    let results = campaign::measure(tools, proxies, plan)?;
    report::print_figures(proxies, &results);
    let checks = report::checks(proxies, &results);
    let missed = report::print_checks(&checks);
    println!("{missed} of {} bounds missed", checks.len());
    Ok(missed)
}
