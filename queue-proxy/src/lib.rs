//! queue-proxy: the sidecar in front of one pod's app.
//!
//! ```text
//!  client ─► handler ─┬─ probe ───► availability (app_readiness, drain)
//!                     └─ request ─► request_counter ─► breaker ─► app_connections ─► app
//!                                        │
//!                  each second a period ─┘─► stats_endpoint  /stat  ◄─ metrics-adapter
//!  kubelet ─► admin_endpoint  /ready, /app-ready, /wait-for-drain
//!         └─► start_drain (a process of the preStop hook) ─► admin_endpoint  /start-drain
//! ```
//!
//! It limits the requests that the app serves at a time, queues further requests, counts both and
//! reports when the app is ready. In front of an app that does not use HTTP, `tcp_proxy` takes the
//! handler's place and applies the same rules to connections.
//!
//! The pod's spec configures it by flags and environment variables. It never uses the Kubernetes
//! API.

#![deny(missing_docs)]

mod admin_endpoint;
pub mod app;
mod app_connection;
pub mod args;
mod memory;
mod readiness;
mod requests;
mod start_drain;
mod stats;
mod tcp;

pub use app::App;
pub use args::{Args, Command};
pub use readiness::pod_identity::PodUid;
pub use start_drain::start_drain;
pub use stats::registry_with_all_families;
