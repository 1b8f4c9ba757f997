//! What other components send: decisions of the metrics-adapters, and requests held by activators.

pub mod decision_stream;
pub mod push_server;
pub mod reported_targets;
