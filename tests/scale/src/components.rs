//! The other components of an installation: two zero-scalers that subscribe to decisions, and an
//! activator that pushes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use autoscaler::Key;
use autoscaler::contract::{DECISIONS_PATH, PUSH_PATH};
use autoscaler::stats::{ActivatorReport, Stat, StatMessage};
use futures::{SinkExt, StreamExt};
use tokio::task::JoinSet;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::fake_cluster::WorkloadName;

/// Replicas of the zero-scaler in the manifests.
const SUBSCRIBERS: usize = 2;
/// One of this many workloads has activators in its request path.
const PROXIED: usize = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Connects them. They run until the set is dropped.
pub(crate) async fn connect(stats: SocketAddr, workloads: usize) -> Result<JoinSet<()>> {
    let mut components = JoinSet::new();
    for _ in 0..SUBSCRIBERS {
        let (mut socket, _) = connect_async(format!("ws://{stats}{DECISIONS_PATH}")).await?;
        components.spawn(async move { while let Some(Ok(_)) = socket.next().await {} });
    }
    let (socket, _) = connect_async(format!("ws://{stats}{PUSH_PATH}")).await?;
    let (mut sink, mut stream) = socket.split();
    components.spawn(async move { while let Some(Ok(_)) = stream.next().await {} });
    components.spawn(async move {
        let mut period = tokio::time::interval(PERIOD);
        loop {
            period.tick().await;
            let Ok(text) = serde_json::to_string(&push(workloads)) else { return };
            if sink.send(Message::text(text)).await.is_err() {
                return;
            }
        }
    });
    Ok(components)
}

fn push(workloads: usize) -> ActivatorReport {
    let timestamp = component_base::clock::unix_seconds();
    let message = |workload| {
        let WorkloadName { namespace, name } = WorkloadName::of(workload);
        StatMessage { key: Key::new(namespace, name), stat: Stat { timestamp, ..Stat::default() } }
    };
    ActivatorReport {
        activator: "activator-1".to_owned(),
        messages: (0..workloads).step_by(PROXIED).map(message).collect(),
        ..ActivatorReport::default()
    }
}
