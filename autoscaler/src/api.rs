//! The custom resources of group `autoscaling.rouse.dev`.
//!
//! ```text
//! HorizontalPodAutoscaler ──owns──► PodAutoscaler ──owns──┬─► Metric             what to collect
//! (written by users)                (or by users)         └─► ServerlessService  mode and ports
//! ```
//!
//! All three share the HPA's name. PodAutoscaler is the resource for users. metrics-adapter reads
//! Metric and PodAutoscaler, activator reads ServerlessService, and zero-scaler writes all three.

#![allow(clippy::duplicated_attributes, reason = "every printcolumn(..) has the same keys")]

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

/// The key of the workload that an object belongs to: the object's own namespace and name.
pub fn key_of<K: kube::Resource>(object: &K) -> Option<Key> {
    Some(Key::new(object.meta().namespace.as_deref()?, object.meta().name.as_deref()?))
}

/// The condition of the given type.
pub fn condition<'a>(conditions: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == r#type)
}
