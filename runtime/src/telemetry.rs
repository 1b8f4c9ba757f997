//! Logs: to standard error, as text for people or JSON for collectors.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// Options of every process; flatten into its own arguments.
#[derive(clap::Args, Clone, Debug)]
// clap would name the group after the type, as it does for the process's own `Args`.
#[group(skip)]
pub struct LogArgs {
    /// Form of the log lines.
    #[arg(long, env = "ROUSE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What to log: a level, or directives such as `info,activator=debug`.
    #[arg(long, env = "ROUSE_LOG", default_value = "info")]
    pub log_filter: String,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One readable line an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter's text makes no sense.
    #[error("--log-filter {0:?}: {1}")]
    Filter(String, tracing_subscriber::filter::ParseError),
    /// Something else in this process logs already.
    #[error(transparent)]
    Init(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up logging for the rest of the process's life.
///
/// # Errors
/// On a filter that cannot be parsed.
pub fn init(args: &LogArgs) -> Result<(), LoggingError> {
    use tracing_subscriber::util::SubscriberInitExt;
    let filter =
        EnvFilter::try_new(&args.log_filter).map_err(|e| LoggingError::Filter(args.log_filter.clone(), e))?;
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter);
    match args.log_format {
        LogFormat::Text => lines.with_ansi(false).finish().try_init()?,
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}
