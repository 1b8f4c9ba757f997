//! `kubectl rouse simulate`: replays a recorded workload and prints the decisions.
//!
//! ```text
//!  file | stdin ─► trace_lines ─► autoscaler::scaling::replay ─► json_lines  (as recorded traces)
//!                                                     ├► table       (--human)
//!                                                     └► plot        (--plot)
//! ```
//!
//! The decisions come from the same decider as in a cluster. A decision is written as soon as its
//! line is read, so that the trace may still be growing: output is buffered only while input is
//! available. An invalid line ends the run, after all decisions before it.

mod decision_writer;
mod json_lines;
mod plot;
mod spec_change;
mod summary;
mod table;
pub(crate) mod trace_lines;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use autoscaler::scaling::replay::Replay;
use decision_writer::DecisionWriter;
use trace_lines::{LineError, ReadTraceError, TraceLines};

use crate::args::SimulateArgs;

/// Buffer size of input and output, in bytes.
const BUFFER: usize = 64 << 10;
/// Width of a plot without the environment variable COLUMNS.
const COLUMNS: usize = 100;

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
enum SimulationError {
    #[error(transparent)]
    Trace(#[from] ReadTraceError),
    #[error("{name}: the trace is empty; its first line must have t, spec and ready")]
    Empty { name: String },
    #[error("standard output: {0}")]
    Write(#[from] io::Error),
}

/// Runs a simulation and prints an error to standard error. A closed output pipe (`| head`) is a
/// success.
pub fn run(args: &SimulateArgs) -> ExitCode {
    match simulate(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(SimulationError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // A failure to write the error cannot be reported.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(args: &SimulateArgs) -> Result<(), SimulationError> {
    let (name, input) = open(&args.file)?;
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut writer = decision_writer(args);
    let replayed = replay(name, input, writer.as_mut(), &mut out);
    if !matches!(replayed, Err(SimulationError::Write(_))) {
        writer.end(&mut out)?;
        out.flush()?;
    }
    replayed
}

fn open(file: &Path) -> Result<(String, Box<dyn Read>), ReadTraceError> {
    if file.as_os_str() == "-" {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = file.display().to_string();
    match File::open(file) {
        Ok(file) => Ok((name, Box::new(file))),
        Err(source) => Err(ReadTraceError::Io { name, source }),
    }
}

fn decision_writer(args: &SimulateArgs) -> Box<dyn DecisionWriter> {
    if args.human {
        Box::new(table::DecisionTable::default())
    } else if args.plot {
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
        let coloured =
            io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Box::new(plot::Plot::new(columns.unwrap_or(COLUMNS), coloured))
    } else {
        Box::new(json_lines::JsonLines)
    }
}

/// Replays all lines, up to the end or the first invalid one.
fn replay(
    name: String,
    input: impl Read,
    writer: &mut dyn DecisionWriter,
    out: &mut dyn Write,
) -> Result<(), SimulationError> {
    let mut lines = TraceLines::new(name, BufReader::with_capacity(BUFFER, input));
    let mut replay = Replay::new();
    loop {
        if !lines.is_next_buffered() {
            out.flush()?;
        }
        let Some(line) = lines.next()? else { break };
        let decision = replay.take(line).map_err(|error| lines.error(LineError::Replay(error)))?;
        if let Some(decision) = decision {
            writer.write(&decision, out)?;
        }
    }
    if replay.is_started() { Ok(()) } else { Err(SimulationError::Empty { name: lines.into_name() }) }
}
