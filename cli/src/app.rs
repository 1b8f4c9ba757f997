//! Wiring: runs the command, prints its error, and maps it to an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::args::{Cli, Command, OutputFormat, ShadowArgs};
use crate::connection::Session;
use crate::error::CommandError;
use crate::load::{record, shadow, simulate};
use crate::workloads::{status, top, why};
use crate::{check, completion, init, size, ui};

/// Runs the command of the command line.
pub async fn run(cli: Cli, out: &mut dyn Write) -> ExitCode {
    let result = match &cli.command {
        Command::Simulate(args) => return simulate::run(args),
        Command::Shadow(args @ ShadowArgs { trace: Some(file), .. }) => {
            shadow::run_recorded(args, file, cli.output, out).map(|()| ExitCode::SUCCESS)
        }
        Command::Completion(args) => {
            completion::write_script(args.target, out).map(|()| ExitCode::SUCCESS).map_err(CommandError::from)
        }
        Command::Complete(args) => completion::write_candidates(&args.words, out)
            .map(|()| ExitCode::SUCCESS)
            .map_err(CommandError::from),
        command => match Session::connect(&cli.connection).await {
            Ok(session) => execute(command, &session, cli.output, out).await,
            Err(error) => Err(error),
        },
    };
    result.unwrap_or_else(|error| report(&error))
}

/// Runs a command that needs the cluster.
///
/// # Errors
/// When a request fails, or the output cannot be written.
pub async fn execute(
    command: &Command,
    session: &Session,
    format: OutputFormat,
    out: &mut dyn Write,
) -> Result<ExitCode, CommandError> {
    match command {
        Command::Status(args) => status::run(*args, session, format, out).await?,
        Command::Why(args) => why::run(args, session, format, out).await?,
        Command::Check(args) => return check::run(args, session, now(), format, out).await,
        Command::Init(args) => init::run(args, session, format, out).await?,
        Command::Wake(args) => size::wake(args, session, format, out).await?,
        Command::Sleep(args) => size::sleep(args, session, now(), format, out).await?,
        Command::Pause(args) => size::pause(args, session, now(), format, out).await?,
        Command::Resume(args) => size::resume(args, session, format, out).await?,
        Command::Top => top::run(session, format, out).await?,
        Command::Record(args) => record::run(args, session, out).await?,
        Command::Shadow(args) => shadow::run(args, session, format, out).await?,
        Command::Ui(args) => ui::run(*args, session, format, out).await?,
        // They need no cluster.
        Command::Simulate(_) | Command::Completion(_) | Command::Complete(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// The wall clock, for ages and certificates.
#[allow(clippy::disallowed_methods, reason = "the edge of the program")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or_default()
}

fn report(error: &CommandError) -> ExitCode {
    if !error.is_silent() {
        // A failure to write the error cannot be reported.
        let _ = writeln!(io::stderr(), "error: {error}");
    }
    error.exit_code()
}
