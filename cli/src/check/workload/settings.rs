//! Annotations of Rouse that nothing reads. Values are checked by the zero-scaler, which reports
//! them as conditions.

use autoscaler::findings::annotations::{AnnotatedObject, without_effect};
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(hpa) = &workload.hpa {
        let object = format!("HorizontalPodAutoscaler {}", workload.key);
        findings.extend(unread(&object, hpa.annotations().keys(), AnnotatedObject::Hpa));
    } else if let Some(autoscaler) = &workload.autoscaler {
        // One that the zero-scaler made repeats its HPA's.
        let object = format!("PodAutoscaler {}", workload.key);
        findings.extend(unread(&object, autoscaler.annotations().keys(), AnnotatedObject::PodAutoscaler));
    }
    let target = workload.target_name();
    let of_pods = workload.pod_annotations().map(|(key, _)| key);
    findings.extend(unread(&target, of_pods, AnnotatedObject::PodTemplate));
    let of_target = workload.deployment().map(ResourceExt::annotations);
    let of_target = of_target.into_iter().flat_map(|it| it.keys());
    findings.extend(unread(&target, of_target, AnnotatedObject::Target));
    findings
}

fn unread<'a>(
    object: &str,
    names: impl Iterator<Item = &'a String> + 'a,
    kind: AnnotatedObject,
) -> Vec<Finding> {
    without_effect(names, kind).map(|problem| Finding::of_problem(object, problem).as_warning()).collect()
}
