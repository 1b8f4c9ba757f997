//! What every Rouse process does at start, while it is ready, and at stop.
//!
//! ```text
//! start   telemetry::init ─► bind sockets ─► readiness latches dropped one by one ─► /ready answers 200
//! stop    shutdown::on_signal ─► readiness.drain() ─► server::serve ends gently ─► exit
//! ```
//!
//! Used by all four binaries; it knows nothing of autoscaling. Wiring stays in each binary's `app.rs`.

pub mod admin;
pub mod auth;
pub mod clock;
#[cfg(feature = "kube")]
pub mod kubernetes;
pub mod metric_description;
pub mod metrics;
pub mod readiness;
pub mod shutdown;
pub mod telemetry;
