//! The activator: in the path of a workload while it has no capacity, or too little.
//!
//! ```text
//! leased port ─► listeners ─► handler ─┬─► workload_throttler ─► slot_queue ─► forward ─► queue-proxy
//!                                      │        ▲    holds, until │ ▲ pod_set ◄── pod_prober
//!                                      │        └── throttler     └─┴ pod_slots
//!                                      │             ▲ workloads (ServerlessServices, pods)
//!                                      │             ▲ slot_exchange ◄─► other activators
//!                                      └─► concurrency_reporter ─► stat_reporter ─► metrics-adapter, zero-scaler
//! ```
//!
//! What was held is forwarded in rounds. What is not HTTP goes the same way: tcp_handler takes the handler's place, and tunnel that of forward.
//!
//! A request that arrives for a sleeping workload is counted, which pokes, and held. Its pod is probed as soon as it has an
//! address, and gets the request as soon as it answers, long before Kubernetes calls it Ready. Nothing is written to the
//! Kubernetes API from here, but by the guard, when no zero-scaler is left.

pub mod app;
pub mod args;
pub mod cold_start;
pub mod concurrency_reporter;
pub mod error_response;
pub mod expected_probes;
pub mod forward;
pub mod guard;
pub mod handler;
pub mod health_check;
pub mod held_body;
pub mod held_places;
pub mod listeners;
pub mod metrics;
pub mod pod_connector;
pub mod pod_prober;
pub mod pod_set;
pub(crate) mod pod_slots;
pub mod pod_starts;
pub mod pod_tracker;
pub mod probe;
pub mod rounds;
pub mod slot_exchange;
pub mod slot_queue;
pub mod stat_reporter;
pub mod tcp_handler;
pub mod throttler;
pub mod tunnel;
pub mod two_choices;
pub mod workload_throttler;
pub mod workloads;
