//! The connection to one receiver of reports, kept while the receiver is among the addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::PUSH_PATH;
use component_base::auth::ProjectedToken;
use component_base::websocket::{ClientSocket, Connector, PeerError, PeerLimits, PeerSender, split};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use crate::reports::push_metrics::PushMetrics;
use crate::reports::report_outbox::ReportOutbox;

const LIMITS: PeerLimits = PeerLimits {
    ping_interval: Duration::from_secs(3),
    silence_timeout: Duration::from_secs(10),
    send_timeout: Duration::from_secs(10),
};
/// First and longest delay between attempts to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Sends the reports of the outbox, with reconnects, until dropped.
#[tracing::instrument(name = "receiver", skip_all, fields(%address))]
pub(super) async fn keep(
    address: SocketAddr,
    outbox: Arc<ReportOutbox>,
    metrics: PushMetrics,
    token: ProjectedToken,
) {
    let mut connector = Connector::new(address, PUSH_PATH, token, RETRY);
    loop {
        let (mut sender, mut receiver) = split(connector.connect().await, LIMITS);
        let _connected = metrics.connected();
        outbox.connected(Instant::now());
        let error = tokio::select! {
            Err(error) = send(&mut sender, &outbox) => error,
            // Receivers send nothing but pongs.
            error = receiver.closed() => error,
        };
        outbox.disconnected();
        tracing::info!(%error, "receiver disconnected, reconnecting");
    }
}

async fn send(
    sender: &mut PeerSender<ClientSocket, Message>,
    outbox: &ReportOutbox,
) -> Result<(), PeerError> {
    loop {
        let report = sender.ping_until(outbox.next()).await?;
        sender.send([Message::Text(report.text)]).await?;
        if let Some(poke) = report.poke {
            poke.get_or_init(Instant::now);
        }
    }
}
