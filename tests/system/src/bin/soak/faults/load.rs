//! Workloads that sleep and wake: each has requests for some seconds, then none until it is at
//! zero. Another one has sessions: requests that last as long as a fault, through activators.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use system_tests::cluster::namespace::{CLIENT_POD, TestNamespace};
use system_tests::traffic::load::{self, Load, Response, RunningLoad};
use system_tests::workloads::workload::{Sidecar, Workload};
use tokio::task::JoinSet;

/// Requests a second of a workload while it has some.
const RATE: f64 = 20.0;
/// How long it has requests. With a pause of the same length half of the workloads have some.
const LOAD: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_secs(30);
/// Pods of a workload, at most. Sizes above it are the HPA's, which takes one step in 15 s. On a
/// node that is slow to start pods, held requests would also add pods, which start even later.
const PODS: i32 = 1;
const UP: Duration = Duration::from_secs(120);
/// Its pods have no sidecar, so activators are in the path of all requests.
pub(super) const SESSIONS: &str = "sessions";
/// Sessions at a time. Nodes choose activators at random, and each should have one.
const PARALLEL_SESSIONS: u32 = 8;

/// A request without a 200.
#[derive(Clone, Debug, Default)]
pub(super) struct FailedRequest {
    pub(super) workload: String,
    pub(super) response: Response,
}

/// Requests so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicUsize,
    failed: Mutex<Vec<FailedRequest>>,
}

/// The load of all workloads.
pub(super) struct Cycles {
    pub(super) names: Vec<String>,
    pub(super) counts: Arc<Counts>,
    client: IpAddr,
    sessions_url: String,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Result<()>>,
}

// === impl FailedRequest ===

impl FailedRequest {
    /// Unix milliseconds.
    pub(super) fn begin(&self) -> f64 {
        self.response.sent_ms
    }

    /// Unix milliseconds.
    pub(super) fn end(&self) -> f64 {
        self.response.sent_ms + self.response.ms
    }
}

// === impl Counts ===

impl Counts {
    fn add(&self, workload: &str, response: Response) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        if response.status != 200 {
            println!("  {workload} {response:?}");
            let failed = FailedRequest { workload: workload.to_owned(), response };
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).push(failed);
        }
    }

    /// All failures so far.
    pub(super) fn failed(&self) -> Vec<FailedRequest> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// === impl Cycles ===

impl Cycles {
    /// Applies the workloads at zero and starts their load.
    ///
    /// # Errors
    /// When the API refuses a workload.
    pub(super) async fn start(namespace: &TestNamespace, workloads: usize) -> Result<Self> {
        let client = namespace.api::<Pod>().get(CLIENT_POD).await?;
        let client = client.status.and_then(|status| status.pod_ip).context("the client has no address")?;
        let sessions = Workload { sidecar: Sidecar::None, max_replicas: PODS, ..Workload::new(SESSIONS) };
        let mut this = Self {
            names: vec![sessions.name.clone()],
            counts: Arc::default(),
            client: client.parse()?,
            sessions_url: load::create_at_zero(&sessions, namespace, UP).await?,
            stop: Arc::default(),
            tasks: JoinSet::new(),
        };
        for number in 0..workloads {
            let workload = Workload { max_replicas: PODS, ..Workload::new(&format!("cycler-{number}")) };
            let url = load::create_at_zero(&workload, namespace, UP).await?;
            let cycler = Cycler {
                load: Load::rate(&url, RATE, LOAD),
                workload: workload.name.clone(),
                client: this.client,
                counts: this.counts.clone(),
                stop: this.stop.clone(),
            };
            let offset = (LOAD + PAUSE).mul_f64(number as f64 / workloads as f64);
            this.tasks.spawn(cycler.run(offset));
            this.names.push(workload.name);
        }
        Ok(this)
    }

    /// Starts sessions that last so long.
    ///
    /// # Errors
    /// When the node cannot send the request to the client pod.
    pub(super) fn start_sessions(&self, last: Duration) -> Result<RunningLoad> {
        let second = Duration::from_secs(1);
        let load = Load::concurrency(&self.sessions_url, PARALLEL_SESSIONS, last, second);
        Load { timeout: last + UP, ..load }.start_from_node(self.client)
    }

    /// Waits for the end of sessions, and counts them.
    ///
    /// # Errors
    /// When the client pod failed.
    pub(super) async fn finish_sessions(&self, sessions: RunningLoad) -> Result<()> {
        sessions.finish().await?.into_iter().for_each(|response| self.counts.add(SESSIONS, response));
        Ok(())
    }

    /// Ends the load, and waits for its last requests.
    ///
    /// # Errors
    /// When the client pod failed.
    pub(super) async fn finish(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// The load of one workload.
struct Cycler {
    workload: String,
    load: Load,
    client: IpAddr,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
}

// === impl Cycler ===

impl Cycler {
    async fn run(self, offset: Duration) -> Result<()> {
        tokio::time::sleep(offset).await;
        while !self.stop.load(Ordering::Relaxed) {
            // The API server may be gone.
            let mut load = self.load.start_from_node(self.client)?;
            while let Some(response) = load.next().await {
                self.counts.add(&self.workload, response);
            }
            load.finish().await?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}
