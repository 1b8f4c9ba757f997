//! The victim: a workload behind activators, with a steady load and a size that does not change.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::timeline::now_ms;
use system_tests::traffic::load::{self, Load, RunningLoad};
use system_tests::workloads::workload::Workload;

/// Name of all its objects.
pub(crate) const NAME: &str = "victim";
/// Requests a second.
const RATE: f64 = 50.0;
/// Longer than the whole run.
const LONGEST: Duration = Duration::from_secs(7200);
/// Minimum share of the due requests; a client on a busy machine sends some late.
const SENT: f64 = 0.9;
const UP: Duration = Duration::from_secs(120);

/// The load and its results so far.
pub(crate) struct Victim {
    load: RunningLoad,
    /// Up to this time, in Unix milliseconds, results were counted.
    since: f64,
}

/// What the victim's clients noticed in some time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noticed {
    pub(crate) requests: usize,
    pub(crate) failed: usize,
    /// Milliseconds of the slowest request.
    pub(crate) slowest: f64,
}

// === impl Victim ===

impl Victim {
    /// Applies the workload and starts its load.
    ///
    /// # Errors
    /// When the API refuses it, or it does not respond.
    pub(crate) async fn start(namespace: &TestNamespace) -> Result<Self> {
        let workload = Workload { min_replicas: 2, max_replicas: 2, replicas: 2, ..Workload::new(NAME) }
            .annotated("scale-to-zero", "false")
            .annotated("target-burst-capacity", "-1");
        workload.create(namespace).await?;
        let url = workload.url(namespace).await?;
        load::until_first_response(&url, namespace, UP).await?;
        let load = Load::rate(&url, RATE, LONGEST).start(namespace).await?;
        Ok(Self { load, since: now_ms() })
    }

    /// The results since the last call. A request that still runs is in the results of a later
    /// call.
    ///
    /// # Errors
    /// When the client sent too few requests for the results to mean anything.
    pub(crate) async fn noticed(&mut self) -> Result<Noticed> {
        let now = now_ms();
        let due = RATE * (now - self.since) / 1000.0;
        let mut noticed = Noticed::default();
        loop {
            let response = self.load.next().await.context("the victim's load ended early")?;
            noticed.requests += 1;
            noticed.slowest = noticed.slowest.max(response.ms);
            if response.status != 200 {
                noticed.failed += 1;
                println!("  {response:?}");
            }
            if response.sent_ms + response.ms >= now {
                break;
            }
        }
        ensure!(
            noticed.requests as f64 > SENT * due,
            "{} requests where {due:.0} were due",
            noticed.requests
        );
        self.since = now;
        Ok(noticed)
    }
}
