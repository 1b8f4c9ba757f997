//! Tests that restart or scale parts of the installation, or that measure times. Each has the
//! cluster to itself.

mod activators;
mod adapter_handover;
mod adapter_outage;
mod admin_ports;
mod aggregation;
mod hpa;
mod hpa_vectors;
mod kubectl_rouse;
mod leaders;
mod limit_of_one;
mod network_policies;
mod wake_latency;
mod without_installation;
mod without_mutating_policies;
