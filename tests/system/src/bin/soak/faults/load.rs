//! Workloads that sleep and wake: each has requests for some seconds, then none until it is at zero.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{self, Load, Response};
use system_tests::workloads::workload::Workload;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Requests a second of a workload while it has some.
const RATE: f64 = 20.0;
/// How long it has requests. With a pause of the same length half of the workloads have some.
pub(super) const LOAD: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(15);
const UP: Duration = Duration::from_secs(120);

/// Requests so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicUsize,
    failed: Mutex<Vec<Response>>,
}

/// The load of all workloads.
pub(super) struct Cycles {
    pub(super) names: Vec<String>,
    pub(super) counts: Arc<Counts>,
    tasks: JoinSet<Result<()>>,
}

// === impl Counts ===

impl Counts {
    fn add(&self, responses: Vec<Response>) {
        self.sent.fetch_add(responses.len(), Ordering::Relaxed);
        let failed = responses.into_iter().filter(|response| response.status != 200);
        let mut all = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(failed.inspect(|response| println!("  {response:?}")));
    }

    /// The failures since the last call.
    pub(super) fn take_failed(&self) -> Vec<Response> {
        std::mem::take(&mut *self.failed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Cycles ===

impl Cycles {
    /// Applies the workloads at zero and starts their load, which ends at `end`.
    ///
    /// # Errors
    /// When the API refuses a workload.
    pub(super) async fn start(namespace: &TestNamespace, workloads: usize, end: Instant) -> Result<Self> {
        let (mut names, mut tasks) = (Vec::new(), JoinSet::new());
        let counts = Arc::new(Counts::default());
        for number in 0..workloads {
            let workload = Workload::new(&format!("cycler-{number}"));
            let url = load::create_at_zero(&workload, namespace, UP).await?;
            let offset = (LOAD + PAUSE).mul_f64(number as f64 / workloads as f64);
            tasks.spawn(cycle(namespace.clone(), url, offset, end, counts.clone()));
            names.push(workload.name);
        }
        Ok(Self { names, counts, tasks })
    }

    /// Waits for the end of the load.
    ///
    /// # Errors
    /// When the client pod failed.
    pub(super) async fn finish(&mut self) -> Result<()> {
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn cycle(
    namespace: TestNamespace,
    url: String,
    offset: Duration,
    end: Instant,
    counts: Arc<Counts>,
) -> Result<()> {
    tokio::time::sleep(offset).await;
    while Instant::now() + LOAD < end {
        let responses = Load::rate(&url, RATE, LOAD).run(&namespace).await?;
        counts.add(responses);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
