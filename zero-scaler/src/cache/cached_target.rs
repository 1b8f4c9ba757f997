//! CachedTarget: the scale, the sidecar and the footprint of the pods of a watched Deployment or
//! StatefulSet.
//!
//! The objects are large, so nothing else is kept.

pub(crate) mod footprint;
pub mod scale;

use autoscaler::findings::Problem;
use autoscaler::findings::annotations::{AnnotatedObject, without_effect};
use autoscaler::findings::deployment_conditions::creation_failure;
use autoscaler::findings::sidecar::{Sidecar, app_targets, sidecar_of};
use autoscaler::findings::wake::NextPods;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use self::footprint::PodFootprint;
use self::scale::{Scale, Writer};
use crate::FIELD_MANAGER;

/// A watched target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedTarget {
    /// The scale, as the subresource has it.
    pub scale: Scale,
    /// The sidecar in the pod template.
    pub sidecar: Sidecar,
    /// The target ports of a Service that name the port to which this sidecar forwards.
    pub app_targets: Vec<IntOrString>,
    /// What one pod takes.
    pub footprint: PodFootprint,
    /// Why the API server refuses its pods. Only Deployments report that.
    pub refused_pods: Option<String>,
    /// What the pods are that it makes next.
    pub next_pods: NextPods,
    /// Its annotations, and those of the template, that have no effect there.
    pub annotations: Vec<Problem>,
}

// === impl CachedTarget ===

impl CachedTarget {
    /// A Deployment; `None` for one without a version, which the API never gives.
    pub(crate) fn of_deployment(object: &Deployment) -> Option<Self> {
        let spec = &object.spec;
        let next_pods = NextPods::of_deployment(object);
        let target = Self::of(&object.metadata, spec.replicas, &spec.selector, &spec.template, next_pods)?;
        Some(Self { refused_pods: creation_failure(object).map(str::to_owned), ..target })
    }

    /// The same for a StatefulSet.
    pub(crate) fn of_stateful_set(object: &StatefulSet) -> Option<Self> {
        let spec = &object.spec;
        let next_pods = NextPods::of_stateful_set(object);
        Self::of(&object.metadata, spec.replicas, &spec.selector, &spec.template, next_pods)
    }

    fn of(
        meta: &ObjectMeta,
        replicas: Option<i32>,
        selector: &LabelSelector,
        template: &PodTemplateSpec,
        next_pods: NextPods,
    ) -> Option<Self> {
        let scale = Scale {
            // The API's own default.
            replicas: replicas.unwrap_or(1),
            selector: selector_text(selector),
            resource_version: meta.resource_version.clone()?,
            writer: last_writer(meta),
        };
        let (sidecar, footprint) = (sidecar_of(template), PodFootprint::of(template));
        let annotations = annotations_without_effect(meta, template);
        let app_targets = app_targets(template);
        Some(Self { scale, sidecar, app_targets, footprint, refused_pods: None, next_pods, annotations })
    }
}

fn annotations_without_effect(meta: &ObjectMeta, template: &PodTemplateSpec) -> Vec<Problem> {
    let of = |meta: Option<&ObjectMeta>, object| {
        let names = meta.and_then(|meta| meta.annotations.as_ref()).into_iter().flat_map(|all| all.keys());
        without_effect(names, object).collect::<Vec<_>>()
    };
    let of_template = of(template.metadata.as_ref(), AnnotatedObject::PodTemplate);
    of(Some(meta), AnnotatedObject::Target).into_iter().chain(of_template).collect()
}

/// The text that `/scale` gives for the same selector.
fn selector_text(selector: &LabelSelector) -> String {
    kube::core::Selector::try_from(selector.clone()).map(|s| s.to_string()).unwrap_or_default()
}

/// The last writer of `spec.replicas`, by the object's managed fields.
pub(crate) fn last_writer(meta: &ObjectMeta) -> Writer {
    let mut writer = Writer::Unknown;
    for entry in meta.managed_fields.iter().flatten() {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        if fields.is_none_or(|fields| fields.pointer("/f:spec/f:replicas").is_none()) {
            continue;
        }
        if entry.manager.as_deref() == Some(FIELD_MANAGER) {
            return Writer::Us;
        }
        writer = Writer::Other(entry.manager.as_deref().unwrap_or_default().into());
    }
    writer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(managers: &[(&str, &str)]) -> Deployment {
        let fields: Vec<_> = managers
            .iter()
            .map(|(manager, field)| {
                serde_json::json!({"manager": manager, "operation": "Update", "subresource": "scale",
                    "fieldsV1": {"f:spec": {*field: {}, "f:paused": {}}}})
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7", "managedFields": fields},
            "spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions":
                [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}, "template": {"spec": {"containers": []}}},
        }))
        .unwrap()
    }

    #[test]
    fn last_writer_is_owner_of_replicas() {
        for (managers, writer) in [
            (vec![], Writer::Unknown),
            (vec![("kubectl", "f:template")], Writer::Unknown),
            (vec![("kubectl", "f:replicas")], Writer::Other("kubectl".into())),
            (vec![("kubectl", "f:template"), (FIELD_MANAGER, "f:replicas")], Writer::Us),
        ] {
            assert_eq!(last_writer(&deployment(&managers).metadata), writer, "{managers:?}");
        }
    }

    #[test]
    fn cached_target_equals_its_scale_subresource() {
        let CachedTarget { scale, sidecar, .. } = CachedTarget::of_deployment(&deployment(&[])).unwrap();
        assert_eq!(scale.replicas, 1);
        let parsed = autoscaler::contract::selector::Selector::parse(&scale.selector).unwrap();
        assert_eq!(parsed.requirements().len(), 2, "{}", scale.selector);
        assert_eq!((scale.resource_version.as_str(), sidecar), ("7", Sidecar::Missing));
    }
}
