//! Logs to standard error, as text or JSON.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// Log options of every process; flatten into its own arguments.
#[derive(clap::Args, Clone, Debug)]
// clap would name the group after the type, as it does for the process's own `Args`.
#[group(skip)]
pub struct LogArgs {
    /// Form of the log lines.
    #[arg(long, env = "ROUSE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Log filter: a level, or directives such as `info,activator=debug`.
    #[arg(long, env = "ROUSE_LOG", default_value = "info")]
    pub log_filter: String,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text per event.
    Text,
    /// One JSON object per event.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter cannot be parsed.
    #[error("invalid --log-filter {0:?}: {1}")]
    Filter(String, tracing_subscriber::filter::ParseError),
    /// A logger is installed already.
    #[error(transparent)]
    Init(#[from] tracing_subscriber::util::TryInitError),
}

/// Installs the logger of the process.
///
/// # Errors
/// When the filter cannot be parsed.
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
