//! A simulated activator: reports the load that a test sets to every metrics-adapter, without any
//! request.
//!
//! ```text
//! ReportedLoads, set by the test ─► a message each second ─► port-forward ─► /push of adapters
//! ```
//!
//! It authenticates with the token of an activator's service account. Like a real activator it
//! reconnects to a replica that restarts. Each report carries the whole second in which it is sent
//! and so fills one bucket of the adapter's windows, however long it travels.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use autoscaler::Key;
use autoscaler::contract::{ACTIVATOR_ACCOUNT, PUSH_PATH, STATS_AUDIENCE, STATS_PORT};
use autoscaler::stats::{ActivatorReport, Stat, StatMessage};
use futures::{SinkExt, StreamExt};
use http::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use tokio::task::JoinSet;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::cluster::account_token::request_token;
use crate::cluster::installation::{component_selector, system_api};

/// Pause between two lists of the adapters.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Time for the token, the port-forward and the handshake.
const CONNECT: Duration = Duration::from_secs(5);

/// The loads to report, by workload. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ReportedLoads(Arc<Mutex<BTreeMap<Key, Vec<ReportedLoad>>>>);

/// The load of one second.
#[derive(Clone, Copy, Debug)]
pub enum ReportedLoad {
    /// Average number of concurrent requests.
    Concurrency(f64),
    /// Number of requests that arrived.
    Rate(f64),
}

/// Reports until it is dropped.
#[derive(Debug)]
pub struct SimulatedActivator {
    _tasks: JoinSet<()>,
}

// === impl ReportedLoads ===

impl ReportedLoads {
    /// Sets the reports of each second from now on.
    pub fn set(&self, workload: Key, reports: &[ReportedLoad]) {
        self.lock().insert(workload, reports.to_vec());
    }

    /// Stops the reports on this workload.
    pub fn remove(&self, workload: &Key) {
        self.lock().remove(workload);
    }

    fn message(&self, activator: &str) -> Result<String> {
        let timestamp = component_base::clock::unix_seconds();
        let message = |key: &Key, load: &ReportedLoad| {
            let stat = match *load {
                ReportedLoad::Concurrency(average) => {
                    Stat { average_concurrent_requests: average, ..Stat::default() }
                }
                ReportedLoad::Rate(count) => Stat { request_count: count, ..Stat::default() },
            };
            StatMessage { key: key.clone(), stat: Stat { timestamp, ..stat } }
        };
        let loads = self.lock();
        let messages = loads.iter().flat_map(|(key, loads)| loads.iter().map(move |load| message(key, load)));
        let push = ActivatorReport {
            activator: activator.to_owned(),
            messages: messages.collect(),
            ..ActivatorReport::default()
        };
        Ok(serde_json::to_string(&push)?)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Vec<ReportedLoad>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl SimulatedActivator ===

impl SimulatedActivator {
    /// Connects to all adapters and reports to them.
    pub fn start(client: &Client, name: &str, loads: ReportedLoads) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(report_to_all(client.clone(), name.to_owned(), loads));
        Self { _tasks: tasks }
    }
}

/// Keeps a connection to each adapter with a running container.
async fn report_to_all(client: Client, name: String, loads: ReportedLoads) {
    let mut connections: JoinSet<String> = JoinSet::new();
    let mut connected = Vec::new();
    loop {
        while let Some(ended) = connections.try_join_next() {
            connected.retain(|pod| Some(pod) != ended.as_ref().ok());
        }
        for pod in running_adapters(&client).await.unwrap_or_default() {
            if connected.contains(&pod) {
                continue;
            }
            connected.push(pod.clone());
            let (client, name, loads) = (client.clone(), name.clone(), loads.clone());
            connections.spawn(async move {
                let Err(error) = report(&client, &pod, &name, &loads).await;
                println!("{name}: connection to {pod} ended: {error:#}");
                pod
            });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn running_adapters(client: &Client) -> Result<Vec<String>> {
    let pods = system_api::<Pod>(client).list(&component_selector("metrics-adapter")).await?;
    let runs = |pod: &&Pod| {
        let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        containers.any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
    };
    Ok(pods.items.iter().filter(runs).map(ResourceExt::name_any).collect())
}

async fn report(client: &Client, pod: &str, name: &str, loads: &ReportedLoads) -> Result<Infallible> {
    let opening = async {
        let audiences = Some(vec![STATS_AUDIENCE.to_owned()]);
        let token = request_token(&system_api(client), ACTIVATOR_ACCOUNT, audiences).await?;
        let mut forwarder = system_api::<Pod>(client).portforward(pod, &[STATS_PORT]).await?;
        let stream = forwarder.take_stream(STATS_PORT).context("no stream")?;
        let mut request = format!("ws://metrics-adapter{PUSH_PATH}").into_client_request()?;
        request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse()?);
        Ok::<_, anyhow::Error>(client_async(request, stream).await?.0)
    };
    let (mut sink, mut stream) = tokio::time::timeout(CONNECT, opening).await??.split();
    let receive = async {
        while let Some(message) = stream.next().await {
            message?;
        }
        bail!("closed by the adapter")
    };
    let send = async {
        loop {
            tokio::time::sleep(until_next_second()).await;
            sink.send(Message::text(loads.message(name)?)).await?;
        }
    };
    tokio::select! {
        ended = receive => ended,
        ended = send => ended,
    }
}

fn until_next_second() -> Duration {
    let now = component_base::clock::since_epoch();
    Duration::from_secs(now.as_secs() + 1).saturating_sub(now)
}
