//! `status`: all workloads in a table, once or every two seconds.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde::Serialize;

use crate::args::{OutputFormat, StatusArgs};
use crate::connection::Session;
use crate::error::CommandError;
use crate::output::table::Table;
use crate::output::{write_json, write_json_line};
use crate::workloads;
use crate::workloads::row::{WorkloadRow, cell, number, state};

/// Time between two lists: the decider decides every two seconds.
const INTERVAL: Duration = Duration::from_secs(2);
/// Moves the cursor to the first line and clears the terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

#[derive(Serialize)]
struct StatusList<'a> {
    workloads: &'a [WorkloadRow],
}

/// Runs the command.
///
/// # Errors
/// When the workloads cannot be listed. With `--watch`, a failure after the first list is printed,
/// and the next list is tried.
pub async fn run(
    args: StatusArgs,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let rows = workloads::rows(session).await?;
    if !args.watch {
        return print(&rows, format, out);
    }
    let clears = format == OutputFormat::Text && io::stdout().is_terminal();
    let mut listed = Ok(rows);
    loop {
        if clears {
            out.write_all(CLEAR)?;
        }
        match (listed, format) {
            (Ok(rows), OutputFormat::Json) => write_json_line(&StatusList { workloads: &rows }, out)?,
            (Ok(rows), OutputFormat::Text) => print(&rows, format, out)?,
            (Err(error), _) => writeln!(io::stderr(), "{error}")?,
        }
        out.flush()?;
        tokio::time::sleep(INTERVAL).await;
        listed = workloads::rows(session).await;
    }
}

fn print(rows: &[WorkloadRow], format: OutputFormat, out: &mut dyn Write) -> Result<(), CommandError> {
    match format {
        OutputFormat::Json => write_json(&StatusList { workloads: rows }, out)?,
        OutputFormat::Text if rows.is_empty() => {
            writeln!(out, "no workloads; kubectl rouse init deploy/NAME prints what a first one needs")?;
        }
        OutputFormat::Text => write_table(rows, out)?,
    }
    Ok(())
}

fn write_table(rows: &[WorkloadRow], out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(["NAMESPACE", "NAME", "STATE", "SIZE", "LOAD", "TARGET", "DECIDED", "REASON"]);
    for row in rows {
        table.push([
            row.namespace.clone(),
            row.name.clone(),
            state(row.state),
            cell(row.size),
            number(row.load),
            number(row.target),
            decided(row),
            cell(row.reason.as_ref()),
        ]);
    }
    table.write(out)?;
    write_schedules(rows, out)?;
    write_savings(rows, out)?;
    write_missing(rows, out)
}

/// The minimum of each workload with a schedule.
fn write_schedules(rows: &[WorkloadRow], out: &mut dyn Write) -> io::Result<()> {
    let scheduled: Vec<_> = rows.iter().filter_map(|row| Some((row, row.schedule.as_ref()?))).collect();
    if !scheduled.is_empty() {
        writeln!(out)?;
    }
    for (row, schedule) in scheduled {
        writeln!(out, "schedule of {}/{}: {schedule}", row.namespace, row.name)?;
    }
    Ok(())
}

/// What the workloads saved together, if a workload has an account.
fn write_savings(rows: &[WorkloadRow], out: &mut dyn Write) -> io::Result<()> {
    if rows.iter().all(|row| row.saved_pod_hours.is_none()) {
        return Ok(());
    }
    let sum = |of: fn(&WorkloadRow) -> Option<f64>| rows.iter().filter_map(of).sum::<f64>();
    writeln!(
        out,
        "\nsaved at zero against one pod each: {:.1} pod-hours, {:.1} CPU-hours and {:.1} GiB-hours of requests",
        sum(|row| row.saved_pod_hours),
        sum(|row| row.saved_cpu_hours),
        sum(|row| row.saved_memory_gib_hours),
    )
}

fn decided(row: &WorkloadRow) -> String {
    let decided = cell(row.decided);
    if row.panicking { format!("{decided} (panic)") } else { decided }
}

/// Why loads are unknown: each reason once, with the number of workloads.
fn write_missing(rows: &[WorkloadRow], out: &mut dyn Write) -> io::Result<()> {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for row in rows.iter().filter(|row| row.load.is_none()) {
        let reason = row.missing.as_deref().unwrap_or("no decision yet");
        // The error of a request begins with the workload's name.
        let reason =
            reason.split_once(": ").filter(|(what, _)| what.starts_with("why ")).map_or(reason, |(_, r)| r);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    for (reason, count) in reasons {
        let s = if count == 1 { "" } else { "s" };
        writeln!(out, "\n{count} workload{s} without load: {reason}")?;
    }
    Ok(())
}
