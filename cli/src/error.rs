//! CommandError: why a command failed, and its exit code.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Exit code of an answer that is no: something is wrong, refused or invalid.
pub const NEGATIVE: u8 = 1;
/// Exit code of an invalid command line, as clap's.
const USAGE: u8 = 2;
/// Exit code of failed requests.
const FAILED: u8 = 3;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No usable kubeconfig.
    #[error("no usable kubeconfig: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// Neither a kubeconfig nor a service account.
    #[error("no usable kubeconfig: {0}")]
    Infer(#[from] kube::config::InferConfigError),
    /// The client could not be created.
    #[error("no client for the API server: {0}")]
    Client(#[source] kube::Error),
    /// A request failed.
    #[error("{what}: {}", reason(source))]
    Request {
        /// What was requested.
        what: String,
        /// The failure.
        source: Box<kube::Error>,
    },
    /// A response has an unexpected form.
    #[error("{what}: the response could not be read: {source}")]
    Response {
        /// What was requested.
        what: String,
        /// The failure.
        source: serde_json::Error,
    },
    /// A port cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The failure.
        source: io::Error,
    },
    /// An argument is invalid.
    #[error("{0}")]
    Argument(String),
    /// A trace is invalid.
    #[error("{0}")]
    Trace(String),
    /// The command was refused, with every reason.
    #[error("{0}")]
    Refused(String),
    /// The output could not be encoded as YAML.
    #[error("the output could not be encoded: {0}")]
    Encode(#[from] serde_yaml_ng::Error),
    /// The output could not be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

// === impl CommandError ===

impl CommandError {
    /// The error of a request for `what`.
    pub fn request(what: impl Into<String>, source: kube::Error) -> Self {
        Self::Request { what: what.into(), source: Box::new(source) }
    }

    /// The exit code. A closed output pipe (`| head`) is a success.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Refused(_) | Self::Trace(_) => ExitCode::from(NEGATIVE),
            Self::Argument(_) => ExitCode::from(USAGE),
            _ => ExitCode::from(FAILED),
        }
    }

    /// Whether the message is to be printed.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

/// The message of the API server, without the debug form of its Status.
pub fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    }
}

/// Whether the API server found no such object, or does not serve its kind.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
