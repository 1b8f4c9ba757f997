//! Ends an installation of Rouse without a lost request: `zero-scaler uninstall`, which the Job
//! `uninstall` runs before the parts of Rouse are deleted.
//!
//! ```text
//!  announcement ──► workloads awake ──► Services restored ──► metrics APIs deleted
//!    ──► no slice of Rouse leads to pods, and workloads still awake ──► leftovers owned
//! ```
//!
//! Input: PodAutoscalers, ServerlessServices, Services and pods, read from the API server without a
//! cache. The zero-scalers, which must run, do most of the work: an annotation makes them scale all
//! workloads from zero and lead their Services to pods. What this process writes itself are Services
//! of users, which no other part of Rouse may write, so it has an account of its own. Each step
//! does nothing where an earlier run did it: the Job may be repeated after any failure.

pub mod announcement;
pub mod app_port;
pub mod args;
pub mod error;
pub mod leftovers;
pub mod metrics_apis;
pub mod own_slices;
pub mod restored_service;
pub mod service_restoration;
pub mod workloads_awake;

use std::time::Duration;

use kube::Client;
use tokio::time::Instant;

use crate::uninstall::args::UninstallArgs;
use crate::uninstall::error::UninstallError;
use crate::uninstall::workloads_awake::PendingWorkload;

/// Time for the zero-scaler to delete its slices, and for Kubernetes to write its own.
const SLICES_LEFT: Duration = Duration::from_secs(60);

/// Prepares the deletion of all parts of Rouse.
///
/// # Errors
/// When the API server refuses a request, and when deleting the parts of Rouse would cut requests.
/// Workloads whose pods do not start are logged and are no error: nothing serves their requests
/// either way.
pub async fn run(client: &Client, args: &UninstallArgs) -> Result<(), UninstallError> {
    let namespace = &args.system_namespace;
    announcement::announce(client, namespace).await?;
    tracing::info!("uninstall announced, workloads are scaled from zero");
    let wake_timeout = Duration::from_secs(args.wake_timeout_seconds.into());
    report(&workloads_awake::until_awake(client, Instant::now() + wake_timeout).await?);
    let restored = service_restoration::restore_all(client).await?;
    metrics_apis::delete(client, namespace).await?;
    own_slices::until_none_serves(client, &restored, Instant::now() + SLICES_LEFT).await?;
    // An HPA with minReplicas 0 may have scaled to zero for as long as it had our metric.
    report(&workloads_awake::until_awake(client, Instant::now() + wake_timeout).await?);
    leftovers::give_owner(client, namespace).await?;
    workloads_awake::report_without_autoscaler(client).await?;
    tracing::info!("all parts of Rouse may be deleted");
    Ok(())
}

fn report(pending: &[PendingWorkload]) {
    for PendingWorkload { key, reason } in pending {
        tracing::warn!(workload = %key, %reason, "workload does not serve from its pods, continuing");
    }
}
