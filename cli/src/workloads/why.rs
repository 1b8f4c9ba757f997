//! `why`: the metrics-adapter's explanation of a workload's size.

use std::io::Write;

use crate::args::{OutputFormat, WorkloadArgs};
use crate::connection::Session;
use crate::error::CommandError;
use crate::workloads::why_report::{Format, request};

/// Runs the command.
///
/// # Errors
/// When the report cannot be read.
pub async fn run(
    args: &WorkloadArgs,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let key = session.workload(&args.name)?;
    let format = match format {
        OutputFormat::Json => Format::Json,
        OutputFormat::Text => Format::Text,
    };
    let report = request(session, &key, format).await?;
    writeln!(out, "{}", report.trim_end())?;
    Ok(())
}
