//! A played activator: reports to every metrics-adapter the load that a test says, as an activator does.
//!
//! ```text
//! Loads, set by the test ─► each second a frame ─► port-forward ─► /push of each adapter pod, by the token of an activator
//! ```
//!
//! For tests of what adapters and HPAs make of a load: nothing has to carry it. Like a real one it comes back to a replica that
//! starts anew, a moment later than others may. Reports bear the whole second in which they are sent, so each has a bucket
//! of the adapter's windows to itself, however it travelled.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use autoscaler::Key;
use autoscaler::contract::{ACTIVATOR_ACCOUNT, PUSH_PATH, STATS_AUDIENCE, STATS_PORT};
use autoscaler::stats::{Push, Stat, StatMessage};
use futures::{SinkExt, StreamExt};
use http::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use tokio::task::JoinSet;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::installation::{of_ours, of_part};
use crate::token::token;

/// Pause between two looks for adapters that are not reported to.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Time for the token, the port-forward and the handshake.
const CONNECT: Duration = Duration::from_secs(5);

/// What is to be reported. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Loads(Arc<Mutex<BTreeMap<Key, Vec<Load>>>>);

/// One report of a second.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// So many requests at a time.
    Concurrency(f64),
    /// So many that arrived.
    Rate(f64),
}

/// Reports until it is dropped.
#[derive(Debug)]
pub struct PlayedActivator {
    _tasks: JoinSet<()>,
}

// === impl Loads ===

impl Loads {
    /// From now on these are the reports of each second.
    pub fn set(&self, workload: Key, reports: &[Load]) {
        self.lock().insert(workload, reports.to_vec());
    }

    /// From now on nothing is said of this workload.
    pub fn silence(&self, workload: &Key) {
        self.lock().remove(workload);
    }

    fn frame(&self, activator: &str) -> Result<String> {
        let timestamp = runtime::clock::unix_seconds();
        let message = |key: &Key, load: &Load| {
            let stat = match *load {
                Load::Concurrency(average) => {
                    Stat { average_concurrent_requests: average, ..Stat::default() }
                }
                Load::Rate(count) => Stat { request_count: count, ..Stat::default() },
            };
            StatMessage { key: key.clone(), stat: Stat { timestamp, ..stat } }
        };
        let loads = self.lock();
        let messages = loads.iter().flat_map(|(key, loads)| loads.iter().map(move |load| message(key, load)));
        let push = Push { activator: activator.to_owned(), messages: messages.collect(), ..Push::default() };
        Ok(serde_json::to_string(&push)?)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Vec<Load>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl PlayedActivator ===

impl PlayedActivator {
    /// Finds the adapters and reports to them.
    pub fn start(client: &Client, name: &str, loads: Loads) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(follow(client.clone(), name.to_owned(), loads));
        Self { _tasks: tasks }
    }
}

/// Keeps a connection to each adapter whose container runs.
async fn follow(client: Client, name: String, loads: Loads) {
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
                let Err(ended) = report(&client, &pod, &name, &loads).await;
                println!("{name} reports no more to {pod}: {ended:#}");
                pod
            });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn running_adapters(client: &Client) -> Result<Vec<String>> {
    let pods = of_ours::<Pod>(client).list(&of_part("metrics-adapter")).await?;
    let runs = |pod: &&Pod| {
        let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        containers.any(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
    };
    Ok(pods.items.iter().filter(runs).map(ResourceExt::name_any).collect())
}

async fn report(client: &Client, pod: &str, name: &str, loads: &Loads) -> Result<Infallible> {
    let opening = async {
        let audiences = Some(vec![STATS_AUDIENCE.to_owned()]);
        let token = token(&of_ours(client), ACTIVATOR_ACCOUNT, audiences).await?;
        let mut forwarder = of_ours::<Pod>(client).portforward(pod, &[STATS_PORT]).await?;
        let stream = forwarder.take_stream(STATS_PORT).context("no stream")?;
        let mut request = format!("ws://metrics-adapter{PUSH_PATH}").into_client_request()?;
        request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse()?);
        Ok::<_, anyhow::Error>(client_async(request, stream).await?.0)
    };
    let (mut sink, mut stream) = tokio::time::timeout(CONNECT, opening).await??.split();
    let listen = async {
        while let Some(message) = stream.next().await {
            message?;
        }
        bail!("closed by the adapter")
    };
    let send = async {
        loop {
            tokio::time::sleep(until_next_second()).await;
            sink.send(Message::text(loads.frame(name)?)).await?;
        }
    };
    tokio::select! {
        ended = listen => ended,
        ended = send => ended,
    }
}

fn until_next_second() -> Duration {
    let now = runtime::clock::since_epoch();
    Duration::from_secs(now.as_secs() + 1).saturating_sub(now)
}
