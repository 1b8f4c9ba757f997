//! `top`: workloads by load, the highest first.

use std::io::{self, Write};

use serde::Serialize;

use crate::args::OutputFormat;
use crate::connection::Session;
use crate::error::CommandError;
use crate::output::table::Table;
use crate::output::write_json;
use crate::workloads;
use crate::workloads::row::{WorkloadRow, cell, number};

/// A workload's load beside its capacity.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LoadRow {
    namespace: String,
    name: String,
    metric: Option<String>,
    load: Option<f64>,
    ready: Option<u32>,
    load_per_pod: Option<f64>,
    target: Option<f64>,
    /// Percent of the target that a ready pod carries.
    utilization: Option<f64>,
    panicking: bool,
}

#[derive(Serialize)]
struct LoadList {
    workloads: Vec<LoadRow>,
}

/// Runs the command.
///
/// # Errors
/// When the workloads cannot be listed.
pub async fn run(session: &Session, format: OutputFormat, out: &mut dyn Write) -> Result<(), CommandError> {
    let workloads = by_load(workloads::rows(session).await?);
    match format {
        OutputFormat::Json => write_json(&LoadList { workloads }, out)?,
        OutputFormat::Text => write_table(&workloads, out)?,
    }
    Ok(())
}

/// The highest load first; workloads without a load last.
fn by_load(mut rows: Vec<WorkloadRow>) -> Vec<LoadRow> {
    rows.sort_by(|a, b| {
        let order = |row: &WorkloadRow| row.load.unwrap_or(-1.0);
        order(b).total_cmp(&order(a))
    });
    rows.into_iter().map(LoadRow::from).collect()
}

fn write_table(rows: &[LoadRow], out: &mut dyn Write) -> io::Result<()> {
    let mut table =
        Table::new(["NAMESPACE", "NAME", "METRIC", "LOAD", "READY", "LOAD/POD", "TARGET", "USED"]);
    for row in rows {
        table.push([
            row.namespace.clone(),
            row.name.clone(),
            cell(row.metric.as_ref()),
            number(row.load),
            cell(row.ready),
            number(row.load_per_pod),
            number(row.target),
            cell(row.utilization.map(|percent| format!("{percent:.0} %"))),
        ]);
    }
    table.write(out)
}

// === impl LoadRow ===

impl From<WorkloadRow> for LoadRow {
    fn from(row: WorkloadRow) -> Self {
        Self {
            load_per_pod: row.load_per_pod(),
            utilization: row.utilization(),
            namespace: row.namespace,
            name: row.name,
            metric: row.metric,
            load: row.load,
            ready: row.ready,
            target: row.target,
            panicking: row.panicking,
        }
    }
}
