//! The data path that queue-proxy and activator share.

pub mod gateway;
pub mod health_checks;
pub mod listener;
pub mod server;
pub mod tcp;
pub mod tracked_body;
pub mod workers;
