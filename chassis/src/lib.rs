//! What every Rouse process does at start, while it is ready, and at stop.
//!
//! ```text
//! start   telemetry::init ─► bind sockets ─► readiness latches dropped one by one ─► /ready answers 200
//! stop    shutdown::on_signal ─► readiness.drain() ─► server::serve ends gently ─► exit
//! ```
//!
//! Used by all four binaries; it knows nothing of autoscaling. Wiring stays in each binary's `app.rs`.

pub mod admin;
pub mod build_info;
pub mod clock;
pub mod connection_outcome;
pub mod gateway;
pub mod health_checks;
#[cfg(feature = "kube")]
pub mod kinds;
#[cfg(feature = "kube")]
pub mod kubernetes;
#[cfg(feature = "kube")]
pub mod lease;
pub mod liveness;
#[cfg(feature = "kube")]
pub mod peers;
pub mod projected_token;
pub mod raised;
pub mod read_ahead;
mod read_buffer;
pub mod readiness;
pub mod relay;
#[cfg(feature = "kube")]
pub mod reviews;
#[cfg(feature = "kube")]
pub mod scale;
pub mod server;
pub mod shutdown;
pub mod telemetry;
#[cfg(feature = "kube")]
pub mod token_guard;
pub mod tracked_body;
pub mod upgraded;
pub mod upstream;
pub mod workers;
