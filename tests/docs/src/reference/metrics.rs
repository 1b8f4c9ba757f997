//! The page of Prometheus metrics.

use std::fmt::Write as _;

use super::table::cell;
use crate::metric_description::{MetricDescription, programs};

const HEAD: &str = "\
# Metrics

On this page you find every Prometheus metric of Rouse, by the program that serves it on port 9090
under `/metrics`. [Monitoring](monitoring.md) has what scrapes them, dashboards and alerts.

<!-- Generated from the code: make reference. -->
";

/// The page.
pub(super) fn render() -> String {
    let programs = programs().into_iter().flatten();
    programs.fold(HEAD.to_owned(), |mut page, (program, metrics)| {
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
