//! A simulated metrics-adapter: sends all decisions at the start of a connection, and then each
//! again every ten seconds.

use std::io;
use std::time::Duration;

use anyhow::Result;
use autoscaler::{Decision, DecisionEvent};
use futures::SinkExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use crate::world::World;

/// Decisions are repeated in parts, ten parts a second.
const PARTS: usize = 100;
const PART_EVERY: Duration = Duration::from_millis(100);

/// Sends the decisions on every connection, until the listener fails.
pub(crate) async fn serve(listener: TcpListener, world: World) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // An error ends this connection alone; the zero-scaler connects again.
        tokio::spawn(async move { send_decisions(stream, world).await });
    }
}

async fn send_decisions(stream: TcpStream, world: World) -> Result<()> {
    let mut socket = accept_async(stream).await?;
    let decisions: Vec<Decision> = (0..world.workloads).map(|i| world.decision(i)).collect();
    socket.send(message(&DecisionEvent::Snapshot(decisions.clone().into()))?).await?;
    let mut ticks = interval(PART_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for part in (0..PARTS).cycle() {
        ticks.tick().await;
        for decision in decisions.iter().skip(part).step_by(PARTS) {
            let decided_at = component_base::clock::unix_millis();
            let repeated = Decision { decided_at, ..decision.clone() };
            socket.feed(message(&DecisionEvent::Decided(repeated))?).await?;
        }
        socket.flush().await?;
    }
    Ok(())
}

fn message(event: &DecisionEvent) -> Result<Message> {
    Ok(Message::text(serde_json::to_string(event)?))
}
