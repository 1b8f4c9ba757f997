//! ResourceReader: reads CPU and memory of all pods with a sidecar from `metrics.k8s.io`.
//!
//! A task of its own with one request at a time, on the leader, while a workload learns. Nothing
//! waits for it: a metrics API that hangs, fails or sends too much costs the rules for
//! CPU and memory and nothing else. After a failure the next read comes later, up to two minutes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::INJECT_LABEL;
use component_base::kubernetes::lease::Leadership;
use component_base::retry::delay_after;
use http_body_util::BodyExt;
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use tokio::time::{Instant, timeout};

use super::list_items::{ItemTooLarge, ListError, ListItems};
use super::pod_metrics::PodMetrics;
use super::resource_readings::{ResourceList, ResourceReadings, StoredReading};
use crate::metrics::ResourceMetrics;
use crate::watches::ready_pods::ReadyPods;
use crate::watches::workloads::{WorkloadTable, WorkloadsReceiver};

/// All namespaces.
const PATH: &str = "/apis/metrics.k8s.io/v1beta1/pods";
/// Time between reads. metrics-server takes a reading of each node every 15 s by default.
const INTERVAL: Duration = Duration::from_secs(15);
/// Longest time between reads that fail.
const LONGEST_INTERVAL: Duration = Duration::from_secs(120);
/// A read that takes longer is abandoned.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the resources of pods, and stores them.
#[derive(Clone)]
pub struct ResourceReader {
    /// The client to read with.
    pub client: Client,
    /// The pods, for their limits and addresses.
    pub pods: ReadyPods,
    /// The current workloads.
    pub workloads: WorkloadsReceiver,
    /// Receives the readings.
    pub readings: Arc<ResourceReadings>,
    /// Whether this replica leads.
    pub leadership: Leadership,
    /// Counters.
    pub metrics: ResourceMetrics,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The request could not be made or sent, or its response broke off.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// An error response. 404 and 503: the cluster has no metrics API, or none that is available.
    #[error("status {0}")]
    Status(http::StatusCode),
    /// It is not a list that can be read.
    #[error(transparent)]
    List(#[from] ListError),
    /// None of the items could be decoded.
    #[error("none of {0} items could be decoded")]
    Items(u64),
    /// It took too long.
    #[error("the read did not finish within {TIMEOUT:?}")]
    Timeout,
}

/// A list that is being read.
struct ListRead<'a> {
    reader: &'a ResourceReader,
    /// Those with a workload that learns. Pods of others are skipped.
    namespaces: HashSet<&'a str>,
    now: Duration,
    list: ResourceList,
    items: u64,
    invalid: u64,
}

// === impl ResourceReader ===

impl ResourceReader {
    /// Reads until the process ends.
    pub async fn run(mut self) {
        loop {
            self.leadership.acquired().await;
            let reader = self.clone();
            tokio::select! {
                () = reader.read_periodically() => {}
                () = self.leadership.lost() => {}
            }
            self.readings.clear();
            self.metrics.available.set(0);
        }
    }

    async fn read_periodically(&self) {
        let mut failures = 0;
        loop {
            let table = self.workloads.borrow().clone();
            if table.iter().any(|workload| workload.learning.is_some()) {
                let read = timeout(TIMEOUT, self.read(&table)).await.unwrap_or(Err(ReadError::Timeout));
                failures = self.finish(read, failures);
            } else {
                self.readings.clear();
                self.metrics.available.set(0);
                failures = 0;
            }
            tokio::time::sleep(delay_after(failures, INTERVAL, LONGEST_INTERVAL)).await;
        }
    }

    /// Stores the result of a read after this many failures; returns how many there are now. Logs
    /// only the first one and the recovery.
    fn finish(&self, read: Result<ResourceList, ReadError>, failures: u32) -> u32 {
        self.metrics.reads.count(read.is_ok());
        self.metrics.available.set(i64::from(read.is_ok()));
        match read {
            Ok(list) => {
                if failures > 0 {
                    tracing::info!("CPU and memory of pods are available again");
                }
                self.readings.replace(list);
                0
            }
            Err(error) => {
                if failures == 0 {
                    tracing::warn!(
                        %error,
                        "CPU and memory of pods could not be read from metrics.k8s.io, retrying; the rules \
                         of learned targets for them are off"
                    );
                }
                failures.saturating_add(1)
            }
        }
    }

    /// Reads one list. The items are decoded while they arrive, and other tasks run between chunks.
    async fn read(&self, table: &WorkloadTable) -> Result<ResourceList, ReadError> {
        let params = ListParams::default().labels(&format!("{INJECT_LABEL}=true"));
        let request = kube::core::Request::new(PATH).list(&params).map_err(kube::Error::BuildRequest)?;
        let response = self.client.send(request.map(Body::from)).await?;
        if response.status() != http::StatusCode::OK {
            return Err(ReadError::Status(response.status()));
        }
        let (mut body, mut items) = (response.into_body(), ListItems::default());
        let mut read = ListRead::new(self, table);
        while let Some(frame) = body.frame().await {
            if let Ok(chunk) = frame?.into_data() {
                items.push(&chunk, |item| read.add(item))?;
            }
            tokio::task::yield_now().await;
        }
        items.finish()?;
        self.metrics.invalid.inc_by(read.invalid);
        if read.items > 0 && read.items == read.invalid {
            return Err(ReadError::Items(read.items));
        }
        Ok(self.summarize(read.list, table).await)
    }

    /// Adds the usage of each workload that learns.
    async fn summarize(&self, mut list: ResourceList, table: &WorkloadTable) -> ResourceList {
        for workload in table.iter().filter(|workload| workload.learning.is_some()) {
            let key = &workload.key;
            let pods =
                self.pods.select(&key.namespace, &workload.selector, workload.sidecar).unwrap_or_default();
            let usage = list.usage(pods.iter().map(AsRef::as_ref));
            list.workloads.insert(key.clone(), usage);
            tokio::task::yield_now().await;
        }
        list
    }
}

impl std::fmt::Debug for ResourceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceReader").finish_non_exhaustive()
    }
}

// === impl ListRead ===

impl<'a> ListRead<'a> {
    fn new(reader: &'a ResourceReader, table: &'a WorkloadTable) -> Self {
        let learning = table.iter().filter(|workload| workload.learning.is_some());
        Self {
            reader,
            namespaces: learning.map(|workload| workload.key.namespace.as_str()).collect(),
            now: component_base::clock::since_epoch(),
            list: ResourceList { read_at: Some(Instant::now()), ..ResourceList::default() },
            items: 0,
            invalid: 0,
        }
    }

    fn add(&mut self, item: Result<&[u8], ItemTooLarge>) {
        self.items += 1;
        match item.ok().and_then(|item| serde_json::from_slice::<PodMetrics>(item).ok()) {
            Some(metrics) => self.store(&metrics),
            None => self.invalid += 1,
        }
    }

    /// Stores the reading of a ready pod. Others are not stored, so there are at most as many
    /// readings as pods, whatever the list has.
    fn store(&mut self, metrics: &PodMetrics) {
        let name = &metrics.metadata;
        if !self.namespaces.contains(name.namespace.as_str()) {
            return;
        }
        let pod = self.reader.pods.get(&name.namespace, &name.name).filter(|pod| pod.ready);
        let Some((pod, ip)) = pod.and_then(|pod| Some((pod.clone(), pod.ip?))) else { return };
        if let Some(reading) = metrics.reading(&pod.app_containers, self.now) {
            self.list.pods.insert(ip, StoredReading::new(reading));
        }
    }
}
