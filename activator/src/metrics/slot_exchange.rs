//! Metrics of the [`slot_exchange`](crate::slots::slot_exchange).

use component_base::metrics::Families;
use prometheus::{IntCounter, IntGauge};

/// Handles of the slot exchange.
#[derive(Clone, Debug)]
pub struct SlotExchangeMetrics {
    connections: IntGauge,
    sent: IntCounter,
    received: IntCounter,
}

// === impl SlotExchangeMetrics ===

impl SlotExchangeMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// When the registry has one of these metrics already.
    pub fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        let connections = families.gauge("peer_connections", "Other activators that are connected")?;
        let messages = families.counters(
            "slot_messages_total",
            "Messages about slots exchanged with other activators, by direction",
            &["direction"],
        )?;
        let messages = |direction| messages.with_label_values(&[direction]);
        Ok(Self { connections, sent: messages("sent"), received: messages("received") })
    }

    /// Sets the number of connected activators.
    pub fn connected(&self, count: usize) {
        self.connections.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts messages sent to another activator.
    pub fn sent(&self, messages: usize) {
        self.sent.inc_by(messages as u64);
    }

    /// Counts messages received from another activator.
    pub fn received(&self, messages: usize) {
        self.received.inc_by(messages as u64);
    }
}
