//! kube-controller-manager, as far as it writes the size: the HPA's exact arithmetic, each 15 s, on
//! the metric that an adapter would serve.

use std::time::Duration;

use simulator::hpa::{Behavior, Hpa, HpaSpec, ObservedTarget};
use tokio::time::Instant;

use crate::harness::cluster::{Cluster, HPA, TARGET};

const PERIOD: Duration = Duration::from_secs(15);

/// The controller of the cluster's one HPA.
pub(crate) struct StockHpa {
    hpa: Hpa,
    began: Instant,
    due: Instant,
}

// === impl StockHpa ===

impl StockHpa {
    /// Writes the bounds into the HPA, and syncs it from now on.
    pub(crate) fn new(cluster: &Cluster, min: i32, max: i32, behavior: Option<Behavior>) -> Self {
        cluster.edit(HPA, |object| {
            object["spec"]["minReplicas"] = min.into();
            object["spec"]["maxReplicas"] = max.into();
        });
        let spec = HpaSpec { min, max, targets: vec![TARGET * 1000], behavior };
        let now = Instant::now();
        Self { hpa: Hpa::new(spec), began: now, due: now + PERIOD }
    }

    /// A sync, if it is time for one, on a metric in thousandths.
    pub(crate) fn sync(&mut self, cluster: &Cluster, metric: i64) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + PERIOD;
        let size = i32::try_from(cluster.size()).unwrap();
        let observed = ObservedTarget { spec: size, status: size, usages: &[Ok(metric)] };
        let wanted = self.hpa.sync(observed, now - self.began).replicas;
        if wanted != size {
            cluster.scale(wanted.into());
        }
    }
}
