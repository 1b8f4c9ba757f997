//! Access to the API server: server-side apply, events, the rate limit, and single watched objects.

pub mod cluster_settings;
pub mod conditions;
pub mod errors;
pub mod event_deduplicator;
pub mod events;
pub(crate) mod namespace_teardown;
pub mod rate_limit;
pub mod server_side_apply;

pub use autoscaler::findings::reasons;
