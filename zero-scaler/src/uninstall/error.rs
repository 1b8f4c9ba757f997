//! Why an installation may not be deleted yet.

use autoscaler::contract::CONFIG_MAP;

/// Error of the subcommand. The Job fails with it, and with the Job `helm uninstall`.
#[derive(Debug, thiserror::Error)]
pub enum UninstallError {
    /// A request to the API server failed.
    #[error("could not {action}: {source}")]
    Api {
        /// What was to be done.
        action: String,
        source: Box<kube::Error>,
    },
    /// There is nothing to uninstall.
    #[error(
        "namespace {0:?} has no ConfigMap {CONFIG_MAP:?}, so no zero-scaler can be notified; is Rouse installed there?"
    )]
    NotInstalled(String),
    /// The zero-scaler did not give up Services.
    #[error(
        "EndpointSlices of Rouse still serve {0}; is a zero-scaler running? To delete Rouse all the same, with failing \
         requests, use helm uninstall --no-hooks, or skip this Job"
    )]
    StillServing(String),
}

// === impl UninstallError ===

impl UninstallError {
    pub(crate) fn api(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Api { action, source: Box::new(source) }
    }
}
