//! queue-proxy: the sidecar in front of one pod's app.
//!
//! ```text
//!  caller ─► handler ─┬─ probe ──► availability (app_readiness, drain)
//!                     └─ request ─► request_counter ─► breaker ─► forward ─► upstream ─► app
//!                                        │
//!                     reporter, each 1 s ┘─► stats_endpoint  /stat  ◄─ metrics-adapter
//!  kubelet ─► admin  /ready, /app-ready, /wait-for-drain
//! ```
//!
//! In front of an app that does not speak HTTP, tcp_proxy takes the handler's place: what it says of requests holds for
//! connections, while bytes flow.
//!
//! It limits how many requests the app sees at a time, queues what is above, counts what is there and says when the app
//! can be used. It never talks to the Kubernetes API; the pod's spec configures it by flags and environment.

#![deny(missing_docs)]

mod admin;
pub mod app;
mod app_body;
mod app_readiness;
pub mod args;
mod availability;
mod caller_body;
mod deadlines;
mod drain;
mod error_response;
mod forward;
mod grpc_health;
mod handler;
mod metrics;
mod readiness_probe;
mod request_counter;
mod screened;
mod stats_endpoint;
mod tcp_proxy;
mod timeouts;
mod upstream;

pub use app::App;
pub use args::Args;
