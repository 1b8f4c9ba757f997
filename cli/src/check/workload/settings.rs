//! Annotations of Rouse that nothing reads: misspelt ones, and those on the wrong object. Values
//! are checked by the zero-scaler, which reports them as conditions.

use autoscaler::contract::GROUP;
use autoscaler::findings::reasons::CheckReason;
use autoscaler::settings::reference;
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

/// Annotations of pods, as docs/reference/pods.md has them.
const OF_PODS: [&str; 17] = [
    "app-port",
    "container-concurrency",
    "queue-depth",
    "timeout",
    "response-start-timeout",
    "idle-timeout",
    "health-check-agents",
    "no-wake",
    "readiness-path",
    "app-first",
    "protocol",
    "tcp-silence",
    "tcp-answer-time",
    "sidecar-cpu-limit",
    "sidecar-port",
    "sidecar-admin-port",
    "sidecar-stats-port",
];

/// Annotations of HPAs that are fields of a PodAutoscaler.
const FIELDS: [&str; 3] = ["scale-to-zero", "container-concurrency", "service"];

/// An object with annotations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Hpa,
    PodAutoscaler,
    Pods,
    Target,
}

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(hpa) = &workload.hpa {
        let object = format!("HorizontalPodAutoscaler {}", workload.key);
        findings.extend(unread(&object, hpa.annotations().keys(), Place::Hpa));
    } else if let Some(autoscaler) = &workload.autoscaler {
        // One that the zero-scaler made repeats its HPA's.
        let object = format!("PodAutoscaler {}", workload.key);
        findings.extend(unread(&object, autoscaler.annotations().keys(), Place::PodAutoscaler));
    }
    let target = workload.target_name();
    findings.extend(unread(&target, workload.pod_annotations().map(|(key, _)| key), Place::Pods));
    let of_target = workload.deployment().map(ResourceExt::annotations);
    findings.extend(unread(&target, of_target.into_iter().flat_map(|it| it.keys()), Place::Target));
    findings
}

fn unread<'a>(object: &str, keys: impl Iterator<Item = &'a String>, place: Place) -> Vec<Finding> {
    keys.filter_map(|key| {
        let name = key.strip_prefix(GROUP)?.strip_prefix('/')?;
        let is_read = match place {
            Place::Hpa => is_of_workload(name) || FIELDS.contains(&name),
            Place::PodAutoscaler => is_of_workload(name),
            Place::Pods => is_of_pods(name),
            Place::Target => false,
        };
        (!is_read).then(|| finding(object, key, name, place))
    })
    .collect()
}

fn finding(object: &str, key: &str, name: &str, place: Place) -> Finding {
    let is_field = FIELDS.contains(&name);
    let read_on = match (is_of_workload(name) || is_field, is_of_pods(name)) {
        (true, _) if is_field && place == Place::PodAutoscaler => "a field of its spec",
        (true, true) => "the HPA or PodAutoscaler and the pod template",
        (true, false) => "the HPA or PodAutoscaler",
        (false, true) => "the pod template",
        (false, false) => {
            let problem = format!("Rouse has no annotation {key}, so it has no effect");
            return Finding::warning(object, CheckReason::UnknownAnnotation, problem);
        }
    };
    let here = match place {
        Place::Hpa => "an HPA",
        Place::PodAutoscaler => "a PodAutoscaler",
        Place::Pods => "a pod template",
        Place::Target => "a Deployment itself",
    };
    let problem = format!("annotation {key} has no effect on {here}");
    let finding = Finding::warning(object, CheckReason::MisplacedAnnotation, problem);
    finding.with_fix(format!("move it to {read_on}"))
}

fn is_of_workload(name: &str) -> bool {
    reference().iter().any(|row| row.annotation == Some(name))
}

fn is_of_pods(name: &str) -> bool {
    OF_PODS.contains(&name)
}
