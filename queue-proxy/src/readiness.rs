//! Whether requests may come to this pod: the app's readiness and the drain. The admin endpoint
//! reports both.

pub(crate) mod app_probe;
pub(crate) mod app_readiness;
pub(crate) mod availability;
pub(crate) mod drain;
pub(crate) mod drain_waits;
pub(crate) mod pod_identity;
pub(crate) mod readiness_probe;
