//! What all Rouse binaries share as processes: signals, readiness, listeners, admin port, logs, and
//! access to the Kubernetes API and to other parts. It is named after `k8s.io/component-base`.
//!
//! ```text
//! start   telemetry::init ─► bind sockets ─► readiness latches dropped ─► /ready returns 200
//! stop    shutdown::on_signal ─► readiness.drain() ─► the servers drain ─► exit
//! ```
//!
//! It has no code about autoscaling. Each binary's `app.rs` wires the parts. The feature `kube`
//! adds everything that calls the API server; queue-proxy is built without it.

pub mod admin;
pub mod auth;
pub mod clock;
#[cfg(feature = "kube")]
pub mod kubernetes;
pub mod listener;
pub mod metrics;
pub mod readiness;
#[cfg(feature = "websocket")]
pub mod retry;
pub mod server;
pub mod shutdown;
pub mod telemetry;
pub mod threads;
#[cfg(feature = "websocket")]
pub mod websocket;
