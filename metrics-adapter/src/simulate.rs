//! `metrics-adapter simulate`: decides on a recorded workload, and shows what was decided.
//!
//! ```text
//!  file | stdin ─► lines ─► autoscaler::replay ─► answers  (JSON, as in the recorded traces)
//!                                               ├► table    (--human)
//!                                               └► plot     (--plot)
//! ```
//!
//! The deciding is the brain's own; here is only reading, complaining and showing. A decision is written as soon as its line
//! is read, so that a trace may still be growing: output waits no longer than for input that is there already. A bad line
//! ends it, after everything that was decided before.

mod answers;
mod lines;
mod plot;
mod spec_change;
mod summary;
mod table;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use autoscaler::replay::{Outcome, Replay};
use lines::{Lines, Problem};

use crate::args::Simulate;

/// Room for input that is there already, and for the decisions on it.
const BUFFER: usize = 64 << 10;
/// Width of a plot where the environment does not say how wide the terminal is.
const COLUMNS: usize = 100;

/// Why a simulation ended early.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{name}: {source}")]
    Read { name: String, source: io::Error },
    #[error("{name}:{number}: {problem}")]
    Line { name: String, number: u64, problem: Problem },
    #[error("{name}: it is empty, but must begin with a line of t, spec and ready")]
    Empty { name: String },
    #[error("standard output: {0}")]
    Write(#[from] io::Error),
}

/// A way to show outcomes.
trait Report {
    /// Shows one more outcome, now or at the end.
    fn outcome(&mut self, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()>;

    /// Shows what was kept for the end.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}

/// Simulates; what went wrong stands on standard error.
///
/// Nobody to read the output (`| head`) is no failure.
pub fn run(args: &Simulate) -> ExitCode {
    match simulate(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Error::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere is left to complain to if that fails.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(args: &Simulate) -> Result<(), Error> {
    let (name, input) = open(&args.file)?;
    let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut report = report(args);
    let replayed = replay(name, input, report.as_mut(), &mut out);
    if !matches!(replayed, Err(Error::Write(_))) {
        report.end(&mut out)?;
        out.flush()?;
    }
    replayed
}

fn open(file: &Path) -> Result<(String, Box<dyn Read>), Error> {
    if file.as_os_str() == "-" {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = file.display().to_string();
    match File::open(file) {
        Ok(file) => Ok((name, Box::new(file))),
        Err(source) => Err(Error::Read { name, source }),
    }
}

fn report(args: &Simulate) -> Box<dyn Report> {
    if args.human {
        Box::new(table::Table::default())
    } else if args.plot {
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
        let coloured =
            io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Box::new(plot::Plot::new(columns.unwrap_or(COLUMNS), coloured))
    } else {
        Box::new(answers::Answers)
    }
}

/// Takes in line after line, to the end or to the first bad one.
fn replay(name: String, input: impl Read, report: &mut dyn Report, out: &mut dyn Write) -> Result<(), Error> {
    let mut lines = Lines::new(name, BufReader::with_capacity(BUFFER, input));
    let mut replay = Replay::new();
    loop {
        if !lines.is_next_here() {
            out.flush()?;
        }
        let Some(line) = lines.next()? else { break };
        let outcome = replay.take(line).map_err(|error| lines.refused(Problem::Replay(error)))?;
        if let Some(outcome) = outcome {
            report.outcome(&outcome, out)?;
        }
    }
    if replay.is_started() { Ok(()) } else { Err(Error::Empty { name: lines.into_name() }) }
}
