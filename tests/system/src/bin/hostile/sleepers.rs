//! Workloads at zero that are woken one after the other, and how long each wake takes.

use std::time::Duration;

use anyhow::Result;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::traffic::load;
use system_tests::wait;
use system_tests::workloads::workload::{Workload, until_replicas};

/// Enough that one is at zero again when its turn comes.
const COUNT: usize = 6;
/// Time to reach zero after its last request, until its pod is gone.
const AT_ZERO: Duration = Duration::from_secs(60);
const UP: Duration = Duration::from_secs(120);

/// The workloads, in the order of their turns.
pub(crate) struct Sleepers {
    all: Vec<Sleeper>,
    turn: usize,
}

struct Sleeper {
    name: String,
    url: String,
}

// === impl Sleepers ===

impl Sleepers {
    /// Applies the workloads.
    ///
    /// # Errors
    /// When the API refuses one, or no activator holds its requests.
    pub(crate) async fn create(namespace: &TestNamespace) -> Result<Self> {
        let mut all = Vec::new();
        for number in 0..COUNT {
            let workload = Workload::new(&format!("sleeper-{number}"));
            let url = load::create_at_zero(&workload, namespace, UP).await?;
            all.push(Sleeper { name: workload.name, url });
        }
        Ok(Self { all, turn: 0 })
    }

    /// Wakes each once, and returns the median in milliseconds.
    ///
    /// # Errors
    /// When a wake fails.
    pub(crate) async fn wake_all(&mut self, namespace: &TestNamespace) -> Result<f64> {
        let mut taken = Vec::new();
        for _ in 0..self.all.len() {
            self.until_next_at_zero(namespace).await?;
            taken.push(self.wake_next(namespace).await?);
        }
        Ok(load::quantile(&taken, 0.5))
    }

    /// Waits until the next one is at zero and its last pod is gone.
    ///
    /// # Errors
    /// After a minute.
    pub(crate) async fn until_next_at_zero(&self, namespace: &TestNamespace) -> Result<()> {
        let Some(next) = self.next() else { return Ok(()) };
        until_replicas(namespace, &next.name, |replicas| replicas == 0, AT_ZERO).await?;
        wait::until("no pod", AT_ZERO, || async {
            Ok(pods_of(namespace, &next.name).await?.is_empty().then_some(()))
        })
        .await
    }

    /// Wakes the next one, and returns the milliseconds until its response.
    ///
    /// # Errors
    /// When the response is not 200.
    pub(crate) async fn wake_next(&mut self, namespace: &TestNamespace) -> Result<f64> {
        let url = self.next().map(|next| next.url.clone()).unwrap_or_default();
        self.turn += 1;
        Ok(load::send_one_request(&url, namespace).await?.ms)
    }

    fn next(&self) -> Option<&Sleeper> {
        self.all.get(self.turn % self.all.len().max(1))
    }
}
