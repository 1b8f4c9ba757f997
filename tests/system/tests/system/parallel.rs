//! Tests that change nothing outside their namespace. They run side by side, so their bounds leave
//! room for each other's load.

mod documents;
mod held_requests;
mod hostile_pod;
mod hpa_deletion;
mod http2;
mod learned_target;
mod metric_access;
mod policies;
mod redis;
mod scale_to_zero;
mod services;
mod sidecars;
mod targets;
