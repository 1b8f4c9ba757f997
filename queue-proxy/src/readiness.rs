//! Whether requests may come to this pod: the app's readiness, the drain, and the admin port that
//! reports both.

pub(crate) mod admin_endpoint;
pub(crate) mod app_probe;
pub(crate) mod app_readiness;
pub(crate) mod availability;
pub(crate) mod drain;
pub(crate) mod drain_waits;
pub(crate) mod pod_identity;
pub(crate) mod readiness_probe;
