//! The activator: in the path of a workload that has no capacity, or too little of it.
//!
//! ```text
//! leased port ─► requests ─┬─► queue ──► pods ──► queue-proxy, or the app
//!                          │     ▲        ▲
//!                          │     └─ slots ┘ ◄─► other activators
//!                          └─► reports ─► metrics-adapter, zero-scaler
//!
//! workloads (ServerlessServices, pods) ─► throttler ─► queue, requests
//! ```
//!
//! A request for a workload at zero is counted, which sends a poke to the zero-scalers, and held.
//! Its pod is probed as soon as it has an address, and gets the request as soon as the probe
//! succeeds, long before Kubernetes reports the pod Ready. The activator writes nothing to the
//! Kubernetes API, except through the [`fallback_waker`] while no zero-scaler is reachable.

pub mod app;
pub mod args;
pub mod fallback_waker;
pub mod metrics;
pub mod pods;
pub mod queue;
pub mod reports;
pub mod requests;
pub mod slots;
pub mod throttler;
pub mod traces;
pub mod workloads;
