//! The other parts of the system that talk to an adapter: two zero-scalers that read its decisions, and an activator that pushes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use autoscaler::Key;
use autoscaler::contract::{DECISIONS_PATH, PUSH_PATH};
use autoscaler::stats::{Push, Stat, StatMessage};
use futures::{SinkExt, StreamExt};
use tokio::task::JoinSet;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::world::Place;

/// As many as there are by the manifests.
const READERS: usize = 2;
/// One workload in so many has its requests go through the activator.
const PROXIED: usize = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Connects them; they go on until the set is dropped.
pub(crate) async fn connect(stats: SocketAddr, workloads: usize) -> Result<JoinSet<()>> {
    let mut parts = JoinSet::new();
    for _ in 0..READERS {
        let (mut socket, _) = connect_async(format!("ws://{stats}{DECISIONS_PATH}")).await?;
        parts.spawn(async move { while let Some(Ok(_)) = socket.next().await {} });
    }
    let (socket, _) = connect_async(format!("ws://{stats}{PUSH_PATH}")).await?;
    let (mut sink, mut stream) = socket.split();
    parts.spawn(async move { while let Some(Ok(_)) = stream.next().await {} });
    parts.spawn(async move {
        let mut period = tokio::time::interval(PERIOD);
        loop {
            period.tick().await;
            let Ok(text) = serde_json::to_string(&push(workloads)) else { return };
            if sink.send(Message::text(text)).await.is_err() {
                return;
            }
        }
    });
    Ok(parts)
}

fn push(workloads: usize) -> Push {
    let timestamp = runtime::clock::unix_seconds();
    let message = |workload| {
        let Place { namespace, name } = Place::of(workload);
        StatMessage { key: Key::new(namespace, name), stat: Stat { timestamp, ..Stat::default() } }
    };
    Push {
        activator: "activator-1".to_owned(),
        messages: (0..workloads).step_by(PROXIED).map(message).collect(),
        ..Push::default()
    }
}
