//! The custom resources of group `autoscaling.rouse.dev`.
//!
//! ```text
//! HorizontalPodAutoscaler (the user's) ─owns─► PodAutoscaler ─owns─┬─► Metric             what to collect
//!                                              (or the user's)     └─► ServerlessService  Proxy or Serve, and its ports
//! ```
//!
//! All three share the HPA's name. Users read PodAutoscaler; the other two are for the processes that follow them:
//! metrics-adapter reads Metric and PodAutoscaler, activator reads ServerlessService, zero-scaler writes all of them.

#![allow(clippy::duplicated_attributes, reason = "each printcolumn(..) repeats its keys, as it must")]

mod metric;
mod pod_autoscaler;
mod serverless_service;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use metric::{Metric, MetricSpec};
pub use pod_autoscaler::{
    PodAutoscaler, PodAutoscalerSpec, PodAutoscalerStatus, Route, ScaleTargetRef, Scaler, WorkloadPhase,
};
pub use serverless_service::{
    PortLease, ServerlessService, ServerlessServiceSpec, ServerlessServiceStatus, StartFailure,
};

use crate::Key;
pub use crate::contract::metric_name::MetricName;
pub use crate::routing::sks_mode::SksMode;

/// The workload an object belongs to: its own namespace and name, which all objects of a workload share.
pub fn key_of<K: kube::Resource>(object: &K) -> Option<Key> {
    Some(Key::new(object.meta().namespace.as_deref()?, object.meta().name.as_deref()?))
}

/// The condition of this type, if it is there.
pub fn condition<'a>(conditions: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == r#type)
}
