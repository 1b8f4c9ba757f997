//! The page of Prometheus metrics.

use std::fmt::Write as _;

use component_base::metrics::MetricDescription;

use super::table::cell;

const HEAD: &str = "\
# Metrics

On this page you find every Prometheus metric of Rouse, by the program that serves it on port 9090
under `/metrics`. [Monitoring](monitoring.md) has what scrapes them, dashboards and alerts.

<!-- Generated from the code: make reference. -->
";

/// The page.
pub(super) fn render() -> String {
    let programs = [
        ("queue-proxy", queue_proxy::describe_metrics().unwrap_or_default()),
        ("activator", activator::metrics::describe()),
        ("metrics-adapter", metrics_adapter::metrics::describe()),
        ("zero-scaler", zero_scaler::metrics::describe()),
    ];
    programs.into_iter().fold(HEAD.to_owned(), |mut page, (program, metrics)| {
        write_program(&mut page, program, &metrics);
        page
    })
}

fn write_program(page: &mut String, program: &str, metrics: &[MetricDescription]) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "\n## {program}\n\n| Metric | Type | Labels | Help |\n|---|---|---|---|");
    for MetricDescription { name, kind, help, labels } in metrics {
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {} |", cell(help));
    }
}
