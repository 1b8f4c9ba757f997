//! The connection to one receiver of reports, kept while the receiver is among the addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::PUSH_PATH;
use autoscaler::contract::version_skew::{HELLO_HEADER, REPORTS};
use autoscaler::stats::reporters::{BEAT, LOST_AFTER};
use component_base::auth::ProjectedToken;
use component_base::websocket::{ClientSocket, Connector, PeerError, PeerLimits, PeerSender, split};
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use crate::reports::push_metrics::PushMetrics;
use crate::reports::report_outbox::ReportOutbox;

/// Receivers ping each second as well, so both sides detect a lost peer.
const LIMITS: PeerLimits =
    PeerLimits { ping_interval: BEAT, silence_timeout: LOST_AFTER, send_timeout: LOST_AFTER };
/// First and longest delay between attempts to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Sends the reports of the outbox, with reconnects, until dropped.
#[tracing::instrument(name = "receiver", skip_all, fields(%address))]
pub(super) async fn keep(
    address: SocketAddr,
    activator: Arc<str>,
    outbox: Arc<ReportOutbox>,
    metrics: PushMetrics,
    token: ProjectedToken,
) {
    // The name of a pod is valid in a header.
    let hello = HeaderValue::try_from(REPORTS.hello(&activator)).unwrap_or(HeaderValue::from_static("0"));
    let header = HeaderName::from_static(HELLO_HEADER);
    let mut connector = Connector::new(address, PUSH_PATH, token, RETRY).with_header(header, hello);
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
