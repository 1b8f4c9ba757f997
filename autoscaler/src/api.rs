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

mod learning_status;
mod metric;
mod no_wake;
mod ownership_rank;
mod pod_autoscaler;
mod savings_status;
mod schedule_status;
mod serverless_service;
mod sidecar_container;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use learning_status::{LearningStatus, MAX_CHECKPOINT_BYTES};
pub use metric::{Metric, MetricSpec};
pub use no_wake::NoWakeSpec;
pub use ownership_rank::OwnershipRank;
pub use pod_autoscaler::{
    PodAutoscaler, PodAutoscalerSpec, PodAutoscalerStatus, Route, ScaleTargetRef, Scaler, WorkloadPhase,
    group_of,
};
pub use savings_status::SavingsStatus;
pub use schedule_status::ScheduleStatus;
pub use serverless_service::{
    PodObservation, PortLease, RequestTimeouts, SelectorSource, ServerlessService, ServerlessServiceSpec,
    ServerlessServiceStatus, StartFailure,
};
pub use sidecar_container::{
    app_port, declared_app_port, sidecar, sidecar_ports, sidecar_ports_of_template, targets_sidecar,
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

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::Value;

    use super::*;

    /// The paths of integers that may exceed 32 bits.
    fn unbounded(path: &str, schema: &Value) -> Vec<String> {
        let is_integer = schema["type"] == "integer" && schema["format"] != "int64";
        let is_bounded = schema["minimum"].as_f64() >= Some(0.0) && schema["maximum"].is_f64();
        let own = (is_integer && !is_bounded).then(|| path.to_owned());
        let fields = schema["properties"].as_object().into_iter().flatten();
        let fields = fields.flat_map(|(name, schema)| unbounded(&format!("{path}.{name}"), schema));
        let items = schema.get("items").map(|items| unbounded(&format!("{path}[]"), items));
        own.into_iter().chain(fields).chain(items.into_iter().flatten()).collect()
    }

    #[test]
    fn schemas_accept_no_integer_that_cannot_be_decoded() {
        for crd in [Metric::crd(), PodAutoscaler::crd(), ServerlessService::crd()] {
            let crd = serde_json::to_value(crd).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            assert!(schema["properties"]["spec"].is_object());
            assert_eq!(unbounded("", schema), Vec::<String>::new());
        }
    }
}
