//! Command line and environment of the subcommand.

use autoscaler::contract::SYSTEM_NAMESPACE;
use clap::Args;

/// Prepares the deletion of an installation: wakes all workloads and makes their Services
/// independent of Rouse. The zero-scalers must run.
#[derive(Clone, Debug, Args)]
pub struct UninstallArgs {
    /// Namespace of the installation.
    #[arg(long, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,
    /// Longest wait for ready pods of all workloads. Those without are left as they are.
    #[arg(long, env = "ROUSE_UNINSTALL_WAKE_TIMEOUT_SECONDS", default_value_t = 60)]
    pub wake_timeout_seconds: u32,
}
