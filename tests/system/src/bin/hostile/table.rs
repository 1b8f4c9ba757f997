//! The table: which attack on which ports.

use std::fmt;

use autoscaler::contract::{
    ADMIN_PORT, API_PORT, QUEUE_PROXY_ADMIN_PORT, QUEUE_PROXY_PORT, QUEUE_PROXY_STATS_PORT, SLOTS_PORT,
    STATS_PORT, WAKE_PORT,
};
use hostile::Attack;

/// The processes that have ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A Deployment of the installation.
    Component(&'static str),
    /// The sidecars of the victim.
    QueueProxy,
}

/// A port of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) part: Part,
    pub(crate) number: PortNumber,
}

/// How the number of a port is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortNumber {
    Fixed(u16),
    /// The activators' port of the victim.
    Leased,
    /// The kernel's choice, which the attacker does not know.
    Unknown,
}

/// One attack and the ports that it applies to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) attack: Attack,
    pub(crate) ports: &'static [Port],
}

const ACTIVATOR: Part = Part::Component("activator");
const ADAPTER: Part = Part::Component("metrics-adapter");
const ZERO_SCALER: Part = Part::Component("zero-scaler");

const LEASED: Port = Port { part: ACTIVATOR, number: PortNumber::Leased };
const SLOTS: Port = port(ACTIVATOR, SLOTS_PORT);
const WAKE: Port = port(ACTIVATOR, WAKE_PORT);
const ACTIVATOR_ADMIN: Port = port(ACTIVATOR, ADMIN_PORT);
const API: Port = port(ADAPTER, API_PORT);
const ADAPTER_STATS: Port = port(ADAPTER, STATS_PORT);
const ADAPTER_ADMIN: Port = port(ADAPTER, ADMIN_PORT);
const ADAPTER_COLLECTOR: Port = Port { part: ADAPTER, number: PortNumber::Unknown };
const ZERO_SCALER_STATS: Port = port(ZERO_SCALER, STATS_PORT);
const ZERO_SCALER_ADMIN: Port = port(ZERO_SCALER, ADMIN_PORT);
const POD_TRAFFIC: Port = port(Part::QueueProxy, QUEUE_PROXY_PORT);
const POD_ADMIN: Port = port(Part::QueueProxy, QUEUE_PROXY_ADMIN_PORT);
const POD_STATS: Port = port(Part::QueueProxy, QUEUE_PROXY_STATS_PORT);

const ALL: &[Port] = &[
    LEASED,
    SLOTS,
    WAKE,
    ACTIVATOR_ADMIN,
    API,
    ADAPTER_STATS,
    ADAPTER_ADMIN,
    ZERO_SCALER_STATS,
    ZERO_SCALER_ADMIN,
    POD_TRAFFIC,
    POD_ADMIN,
    POD_STATS,
];

/// Each attack on every port of every part to which it applies.
pub(crate) const TABLE: &[Row] = &[
    Row { attack: Attack::Idle, ports: ALL },
    Row { attack: Attack::HalfOpenHandshake, ports: &[API] },
    Row { attack: Attack::HalfOpenHead, ports: ALL },
    Row { attack: Attack::DrippingHead, ports: ALL },
    Row { attack: Attack::SilentHttp2, ports: ALL },
    Row { attack: Attack::HeaderFlood, ports: ALL },
    Row { attack: Attack::ContinuationFlood, ports: ALL },
    Row { attack: Attack::RapidReset, ports: ALL },
    Row { attack: Attack::UnfinishedStreams, ports: ALL },
    Row { attack: Attack::PingFlood, ports: ALL },
    Row { attack: Attack::Tokens, ports: &[SLOTS, API, ADAPTER_STATS, ZERO_SCALER_STATS] },
    Row {
        attack: Attack::SpoofedHeaders,
        ports: &[LEASED, ACTIVATOR_ADMIN, POD_TRAFFIC, POD_ADMIN, POD_STATS],
    },
    Row { attack: Attack::Reviews, ports: &[API] },
    Row { attack: Attack::Datagrams, ports: &[POD_STATS] },
    Row { attack: Attack::ForgedStatistics, ports: &[ADAPTER_COLLECTOR] },
];

const fn port(part: Part, number: u16) -> Port {
    Port { part, number: PortNumber::Fixed(number) }
}

// === impl Row ===

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ports {
            [port] => write!(f, "{} {port}", self.attack),
            ports => write!(f, "{}, {} ports", self.attack, ports.len()),
        }
    }
}

// === impl Port ===

impl Port {
    /// Whether clients begin with a TLS handshake. An idle client and one that breaks off in the
    /// handshake do not complete it.
    pub(crate) fn needs_tls(self, attack: Attack) -> bool {
        self == API && !matches!(attack, Attack::Idle | Attack::HalfOpenHandshake)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            Part::Component(name) => name,
            Part::QueueProxy => autoscaler::contract::QUEUE_PROXY,
        };
        match self.number {
            PortNumber::Fixed(number) => write!(f, "{part}:{number}"),
            PortNumber::Leased => write!(f, "{part}:leased"),
            PortNumber::Unknown => write!(f, "{part}:collector"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_every_attack_once() {
        for attack in Attack::ALL {
            let rows = TABLE.iter().filter(|row| row.attack == attack);
            assert_eq!(rows.count(), 1, "{attack}");
        }
        assert!(TABLE.iter().all(|row| !row.ports.is_empty()));
    }
}
