//! A connection between two pods: what the rows of the table consist of.

/// A pod of the scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    /// The API server. It keeps connections for later requests, so its first one must come after
    /// the rule was removed.
    ApiServer,
    /// A client, in the namespace of the workloads.
    Client,
    /// A pod with open egress and without other rights, such as Prometheus.
    Prometheus,
    /// The pod of a workload, which has a sidecar.
    Workload,
    /// A pod of one of Rouse's Deployments.
    Component(&'static str),
}

/// To where a connection is opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Destination {
    /// A TCP port of a pod, by HTTP. Any answer counts, also a refusal of HTTP or of plain text.
    Tcp(Party, u16),
    /// A UDP port of a pod, by a query of statistics.
    Udp(Party, u16),
    /// The Service of a workload at zero. The activators answer.
    ServiceAtZero,
}

/// A connection. Where both parties are pods of one Deployment, they are different ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) from: Party,
    pub(super) to: Destination,
}

pub(super) const ACTIVATOR: Party = Party::Component("activator");
pub(super) const METRICS_ADAPTER: Party = Party::Component("metrics-adapter");
pub(super) const ZERO_SCALER: Party = Party::Component("zero-scaler");

/// A connection to a TCP port.
pub(super) const fn tcp(from: Party, to: Party, port: u16) -> Connection {
    Connection { from, to: Destination::Tcp(to, port) }
}

/// A query to a UDP port.
pub(super) const fn udp(from: Party, to: Party, port: u16) -> Connection {
    Connection { from, to: Destination::Udp(to, port) }
}

/// A request to the Service of a workload at zero.
pub(super) const fn to_zero(from: Party) -> Connection {
    Connection { from, to: Destination::ServiceAtZero }
}
