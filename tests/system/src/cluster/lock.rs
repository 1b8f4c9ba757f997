//! Which tests may run at the same time: those that only use the installation share it, those that
//! change it run alone.
//!
//! The tests share one process and one cluster. The lock is fair: a waiting exclusive test is not
//! overtaken.

use std::sync::Arc;

use tokio::sync::RwLock;

static CLUSTER: RwLock<()> = RwLock::const_new(());

/// The right to use the cluster, until its last clone is dropped.
#[derive(Clone)]
pub struct ClusterGuard {
    _guard: Arc<dyn Send + Sync>,
}

/// For a test that changes nothing outside its namespace and whose bounds leave room for other
/// tests' load.
pub async fn shared() -> ClusterGuard {
    ClusterGuard { _guard: Arc::new(CLUSTER.read().await) }
}

/// For a test that restarts or scales parts of the installation, or that measures times.
pub async fn exclusive() -> ClusterGuard {
    ClusterGuard { _guard: Arc::new(CLUSTER.write().await) }
}
