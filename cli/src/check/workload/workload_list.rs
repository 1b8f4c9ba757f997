//! The workloads among the objects of a namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{Metric, PodAutoscaler, Scaler};
use autoscaler::findings::hpa::named_service;
use autoscaler::findings::sidecar::sidecar_of;
use autoscaler::settings::{AutoscalerConfig, Settings, SidecarMode};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;

use crate::check::fetched::Fetched;
use crate::check::namespace_objects::{NamespaceObjects, named};
use crate::check::workload_objects::{SharedFacts, WorkloadObjects};

/// All workloads of a namespace: its PodAutoscalers, and HPAs with a metric of Rouse that have
/// none.
pub fn workloads_of(objects: &Arc<NamespaceObjects>, shared: &Arc<SharedFacts>) -> Vec<WorkloadObjects> {
    let of_autoscalers = objects.autoscalers.iter().map(ResourceExt::name_any);
    let of_hpas =
        objects.hpas.iter().filter(|hpa| named_service(hpa, false).is_some()).map(ResourceExt::name_any);
    let names: BTreeSet<String> = of_autoscalers.chain(of_hpas).collect();
    names.into_iter().filter_map(|name| workload(objects, shared, name)).collect()
}

fn workload(
    objects: &Arc<NamespaceObjects>,
    shared: &Arc<SharedFacts>,
    name: String,
) -> Option<WorkloadObjects> {
    let autoscaler = named(&objects.autoscalers, &name);
    let hpa = named(&objects.hpas, &name);
    let target = autoscaler
        .map(|it| (it.spec.scale_target_ref.kind.clone(), it.spec.scale_target_ref.name.clone()))
        .or_else(|| hpa.map(target_of))?;
    let found = objects.target(&target);
    let service_name = autoscaler
        .map(|it| it.spec.service.clone())
        .or_else(|| named_service(hpa?, false))
        .filter(|it| !it.is_empty());
    let service = match (&service_name, &objects.services) {
        (Some(name), Some(services)) => {
            named(services, name).cloned().map_or(Fetched::NotFound, Fetched::Found)
        }
        _ => Fetched::Unreadable(String::new()),
    };
    // Beside scaler: Other, an HPA of any name may write the sizes.
    let is_scaled_alone = hpa.is_some() || autoscaler.is_some_and(|it| it.spec.scaler == Scaler::Direct);
    Some(WorkloadObjects {
        namespace: Arc::clone(objects),
        shared: Arc::clone(shared),
        other_hpas: objects
            .hpas
            .iter()
            .filter(|other| other.name_any() != name && is_scaled_alone && target_of(other) == target)
            .map(ResourceExt::name_any)
            .collect(),
        hpa_warning: autoscaler.is_none().then(|| hpa_warning(objects, &name)).flatten(),
        pods: found.map_or_else(Vec::new, |target| objects.pods_of(target.selector)),
        template: found.map(|target| target.template.clone()),
        has_sidecar: sidecar_mode(named(&objects.metrics, &name), autoscaler, hpa)
            .or_else(|| Some(sidecar_of(found?.template).mode()))
            .is_none_or(|mode| mode.is_required()),
        service_name,
        service,
        autoscaler: autoscaler.cloned(),
        hpa: hpa.cloned(),
        target,
        key: Key::new(&objects.name, &name),
    })
}

/// Reason and note of the zero-scaler's last warning about an HPA.
pub(super) fn hpa_warning(objects: &NamespaceObjects, hpa: &str) -> Option<(String, String)> {
    let last = objects.last_warning("HorizontalPodAutoscaler", hpa, "zero-scaler")?;
    Some((last.reason.clone()?, last.note.clone()?))
}

/// Kind and name of an HPA's target.
pub(super) fn target_of(hpa: &HorizontalPodAutoscaler) -> (String, String) {
    (hpa.spec.scale_target_ref.kind.clone(), hpa.spec.scale_target_ref.name.clone())
}

/// The Metric has the mode in effect. Without one, the spec and annotations have it, or leave it to
/// the pod template.
fn sidecar_mode(
    metric: Option<&Metric>,
    autoscaler: Option<&PodAutoscaler>,
    hpa: Option<&HorizontalPodAutoscaler>,
) -> Option<SidecarMode> {
    if let Some(metric) = metric {
        return Some(metric.spec.sidecar);
    }
    let config = AutoscalerConfig::default();
    if let Some(autoscaler) = autoscaler {
        let (settings, _) = autoscaler.spec.settings(&config, autoscaler.annotations());
        return autoscaler.spec.sidecar(&settings);
    }
    Settings::resolve(&config, hpa?.annotations()).0.pods.sidecar
}
