//! A nemesis of the control loop: hours of virtual time, with faults drawn by a seed.
//!
//! ```text
//!   faults ─► links, clocks, processes, watches, responses of the API server
//!
//!   requests ─► node ─► activators (simulated) ──reports──► metrics-adapter ──decisions──┐
//!                 │          │ forward                 └──► zero-scaler × 2 ◄────────────┘
//!                 └──────► pods (simulated kubelet) ◄── Deployment in the API in memory ◄┴─ HPA
//! ```
//!
//! The zero-scalers are the real ones, with their election, watches and reconcilers. So are the
//! windows, deciders, decision stream, and metrics API of the metrics-adapter, and the arithmetic
//! of the HPA. Clients, nodes, kubelets and activators are simulated. No part has a socket. On
//! tokio's paused clock, minutes take milliseconds.
//!
//! [`run`] checks at each step what no fault may break:
//!
//! - no pod is removed by a 0 of ours while it has a request ([`requests`]);
//! - a held request gets a size, while its activator can report to a zero-scaler that can write;
//! - after the faults, an idle workload is at zero, behind activators, and wakes again.
//!
//! A seed draws the workload, its requests, and the faults. The order of tasks that run at one
//! instant, and the jitter of retries, are not part of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code; a panic fails its seed"
)]

pub mod activator;
pub mod clock;
pub mod cluster;
pub mod faults;
pub mod journal;
pub mod network;
pub mod parts;
pub mod requests;
pub mod simulation;

pub use simulation::{Failure, Options, Summary, run};
