//! What the tests scale: Deployments with the sample app, and custom resources without pods.

pub mod hpa_status;
pub mod scale_target;
pub mod workload;
