//! The custom resources of group `autoscaling.rouse.dev`.
//!
//! ```text
//! HorizontalPodAutoscaler (the user's) ─owns─► PodAutoscaler ─owns─┬─► Metric             what to collect
//!                                              (or the user's)     └─► ServerlessService  Proxy or Serve, and its ports
//! ```
//!
//! All three have the HPA's name. Users read PodAutoscaler. The zero-scaler writes all three, the
//! metrics-adapter reads Metric and PodAutoscaler, and the activator reads ServerlessService.

#![allow(clippy::duplicated_attributes, reason = "each printcolumn(..) repeats its keys")]

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

/// The workload of an object: all objects of a workload have its namespace and name.
pub fn key_of<K: kube::Resource>(object: &K) -> Option<Key> {
    Some(Key::new(object.meta().namespace.as_deref()?, object.meta().name.as_deref()?))
}

/// The condition of this type, if the list has one.
pub fn condition<'a>(conditions: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == r#type)
}
