//! What the tests scale: Deployments with the sample app, and custom resources without pods; and
//! what is reported about them.

pub mod deadlines;
pub mod hpa_status;
pub mod injection;
pub mod limits;
pub mod orphaned_autoscaler;
pub mod random;
pub mod rollout;
pub mod scale_target;
pub mod workload;
