//! `record`: the load of a live workload, in the format that `simulate` and `shadow` read.

use std::io::Write;

use super::trace_source::TraceSource;
use crate::args::RecordArgs;
use crate::connection::Session;
use crate::error::CommandError;
use crate::output::write_json_line;

/// Runs the command. Lines are written as they come, so that an end before the time leaves a trace.
///
/// # Errors
/// When the load cannot be read any more, or the output cannot be written.
pub async fn run(args: &RecordArgs, session: &Session, out: &mut dyn Write) -> Result<(), CommandError> {
    let mut source = TraceSource::new(session, session.workload(&args.name)?);
    source
        .read_for(args.duration, |line| {
            write_json_line(line, out)?;
            Ok(out.flush()?)
        })
        .await
}
