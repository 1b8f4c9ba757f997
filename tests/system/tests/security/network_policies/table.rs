//! The rules, the connections that each of them opens, and what stops for a user without it.

use anyhow::{Context, Result};
use autoscaler::contract::{
    ADMIN_PORT, API_PORT, QUEUE_PROXY_ADMIN_PORT, QUEUE_PROXY_PORT, QUEUE_PROXY_STATS_PORT, SLOTS_PORT,
    STATS_PORT, WAKE_PORT,
};

use super::connection::{ACTIVATOR, Connection, METRICS_ADAPTER, Party, ZERO_SCALER, tcp, to_zero, udp};
use super::rule::Rule;

use Party::{ApiServer, Client, Prometheus, Workload};

/// A rule and what shows that it is in force.
pub(super) struct Row {
    /// As [`Rule`] is printed.
    pub(super) rule: &'static str,
    /// What stops, or begins, for a user.
    pub(super) effect: &'static str,
    /// All of them time out without the rule. They are opened at the same time.
    pub(super) connections: &'static [Connection],
}

/// In the order of the manifest and of the page.
pub(super) const TABLE: &[Row] = &[
    Row {
        rule: "activator ingress TCP 10000-49999",
        effect: "requests to workloads at zero time out, and nothing wakes",
        connections: &[to_zero(Client), to_zero(Prometheus)],
    },
    Row {
        rule: "activator ingress TCP 9090",
        effect: "no TCP workload goes to zero (NotVerified), and Prometheus has no metrics",
        connections: &[tcp(ZERO_SCALER, ACTIVATOR, ADMIN_PORT), tcp(Prometheus, ACTIVATOR, ADMIN_PORT)],
    },
    Row {
        rule: "activator ingress TCP 8082",
        effect: "front doors that wait at the wake endpoint get no answer",
        connections: &[tcp(Prometheus, ACTIVATOR, WAKE_PORT)],
    },
    Row {
        rule: "activator ingress TCP 8081",
        effect: "activators lend each other no slots, and requests wait beside idle pods",
        connections: &[tcp(ACTIVATOR, ACTIVATOR, SLOTS_PORT)],
    },
    Row {
        rule: "activator egress",
        effect: "held requests reach no pod",
        connections: &[tcp(ACTIVATOR, Workload, QUEUE_PROXY_PORT)],
    },
    Row {
        rule: "metrics-adapter ingress TCP 10250",
        effect: "HPAs and kubectl get a 503 for metrics, and all sizes stay",
        connections: &[tcp(Prometheus, METRICS_ADAPTER, API_PORT), tcp(ApiServer, METRICS_ADAPTER, API_PORT)],
    },
    Row {
        rule: "metrics-adapter ingress TCP 9090",
        effect: "Prometheus has no metrics",
        connections: &[tcp(Prometheus, METRICS_ADAPTER, ADMIN_PORT)],
    },
    Row {
        rule: "metrics-adapter ingress TCP 8080",
        effect: "held requests do not count, no decision is published, a follower serves 503",
        connections: &[
            tcp(ACTIVATOR, METRICS_ADAPTER, STATS_PORT),
            tcp(ZERO_SCALER, METRICS_ADAPTER, STATS_PORT),
            tcp(METRICS_ADAPTER, METRICS_ADAPTER, STATS_PORT),
        ],
    },
    Row {
        rule: "metrics-adapter egress",
        effect: "no statistics are read: HPAs get a 503, and nothing goes to zero",
        connections: &[tcp(METRICS_ADAPTER, Workload, QUEUE_PROXY_STATS_PORT)],
    },
    Row {
        rule: "zero-scaler ingress TCP 9090",
        effect: "Prometheus has no metrics",
        connections: &[tcp(Prometheus, ZERO_SCALER, ADMIN_PORT)],
    },
    Row {
        rule: "zero-scaler ingress TCP 8080",
        effect: "a wake waits for the next decision, seconds in place of milliseconds",
        connections: &[tcp(ACTIVATOR, ZERO_SCALER, STATS_PORT)],
    },
    Row {
        rule: "zero-scaler egress",
        effect: "no probe and no decision arrives: nothing goes to zero, and nothing panics",
        connections: &[
            to_zero(ZERO_SCALER),
            tcp(ZERO_SCALER, ACTIVATOR, ADMIN_PORT),
            tcp(ZERO_SCALER, METRICS_ADAPTER, STATS_PORT),
        ],
    },
    Row {
        rule: "queue-proxy ingress TCP 8012",
        effect: "requests time out, from clients and from activators",
        connections: &[tcp(Client, Workload, QUEUE_PROXY_PORT), tcp(ACTIVATOR, Workload, QUEUE_PROXY_PORT)],
    },
    Row {
        rule: "queue-proxy ingress TCP 9090",
        effect: "a pod that loses datagrams is not read: HPAs get a 503",
        connections: &[tcp(METRICS_ADAPTER, Workload, QUEUE_PROXY_STATS_PORT)],
    },
    Row {
        rule: "queue-proxy ingress UDP 9090",
        effect: "statistics are read by HTTP, at a higher cost",
        connections: &[udp(METRICS_ADAPTER, Workload, QUEUE_PROXY_STATS_PORT)],
    },
    Row {
        rule: "queue-proxy ingress TCP 8022",
        effect: "held connections of TCP workloads reach no pod",
        connections: &[tcp(ACTIVATOR, Workload, QUEUE_PROXY_ADMIN_PORT)],
    },
    Row {
        rule: "clients egress TCP 10000-49999",
        effect: "requests of these clients to workloads at zero time out",
        connections: &[to_zero(Client)],
    },
    Row {
        rule: "clients egress TCP 8012",
        effect: "requests of these clients to pods time out",
        connections: &[tcp(Client, Workload, QUEUE_PROXY_PORT)],
    },
];

/// Connections that no rule opens.
pub(super) const CLOSED: [Connection; 6] = [
    tcp(Prometheus, ACTIVATOR, SLOTS_PORT),
    tcp(Prometheus, METRICS_ADAPTER, STATS_PORT),
    tcp(Prometheus, ZERO_SCALER, STATS_PORT),
    tcp(Prometheus, Workload, QUEUE_PROXY_STATS_PORT),
    udp(Prometheus, Workload, QUEUE_PROXY_STATS_PORT),
    tcp(Prometheus, Workload, QUEUE_PROXY_ADMIN_PORT),
];

/// The row of a rule.
pub(super) fn row_of(rule: &Rule) -> Result<&'static Row> {
    let name = rule.to_string();
    TABLE.iter().find(|row| row.rule == name).with_context(|| format!("no row for the rule {name}"))
}
