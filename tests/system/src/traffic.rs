//! Load, and the metric that results: requests and attacks of a client pod, reports of a simulated
//! activator, queries as an HPA sends them, requests through forwarded ports.

pub mod attack;
pub mod forwarded_port;
pub mod learning;
pub mod load;
pub mod metric;
pub mod simulated_activator;
