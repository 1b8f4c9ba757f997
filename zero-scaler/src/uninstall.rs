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
//! workloads from zero and lead their Services to pods. What this process writes itself are
//! Services of users, which no other part of Rouse may write, so it has an account of its own. Each
//! step does nothing where an earlier run did it: the Job may be repeated after any failure.

pub mod announcement;
pub mod app_port;
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

use crate::uninstall::error::UninstallError;
use crate::uninstall::workloads_awake::PendingWorkload;

/// Longest wait for ready pods of all workloads; workloads without are left as they are. Both waits
/// and [`SLICES_LEFT`] are less than the deadline of the Job, which is less than Helm's of hooks.
const WAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the zero-scaler to delete its slices, and for Kubernetes to write its own.
const SLICES_LEFT: Duration = Duration::from_secs(60);

/// Prepares the deletion of all parts of Rouse, which are in `namespace`.
///
/// # Errors
/// When the API server refuses a request, and when deleting the parts of Rouse would cut requests.
/// Workloads whose pods do not start are logged, and are not an error: nothing serves their
/// requests either way.
pub async fn run(client: &Client, namespace: &str) -> Result<(), UninstallError> {
    announcement::announce(client, namespace).await?;
    tracing::info!("uninstall announced, workloads are scaled from zero");
    report(&workloads_awake::until_awake(client, Instant::now() + WAKE_TIMEOUT).await?);
    let restored = service_restoration::restore_all(client).await?;
    metrics_apis::delete(client, namespace).await?;
    own_slices::until_none_serves(client, &restored, Instant::now() + SLICES_LEFT).await?;
    // An HPA with minReplicas 0 may have scaled to zero for as long as it had our metric.
    report(&workloads_awake::until_awake(client, Instant::now() + WAKE_TIMEOUT).await?);
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
