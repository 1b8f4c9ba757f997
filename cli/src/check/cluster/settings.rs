//! The ConfigMap with the cluster-wide settings, and the announcement of an uninstallation in it.

use autoscaler::contract::{CONFIG_MAP, UNINSTALL};
use autoscaler::findings::reasons::{CheckReason, Reason};
use autoscaler::settings::AutoscalerConfig;
use kube::ResourceExt;

use crate::check::cluster_objects::ClusterObjects;
use crate::check::fetched::Fetched;
use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(cluster: &ClusterObjects, workloads: &[WorkloadObjects]) -> Vec<Finding> {
    let object = format!("ConfigMap {}/{CONFIG_MAP}", cluster.system_namespace);
    let map = match &cluster.settings {
        Fetched::Found(map) => map,
        Fetched::NotFound => {
            let problem = "it does not exist; the last valid settings, else the defaults, are in force";
            let fix = "kubectl apply --filename deploy/config-autoscaler.yaml, or upgrade the chart";
            return vec![Finding::warning(object, CheckReason::NotInstalled, problem).with_fix(fix)];
        }
        Fetched::Unreadable(_) => return Vec::new(),
    };
    let mut findings = Vec::new();
    if map.annotations().get(UNINSTALL).is_some_and(|value| value == "true") {
        let problem = format!(
            "its annotation {UNINSTALL} is true, so all workloads are kept above zero and Services lead to \
             pods"
        );
        findings.push(Finding::error(&object, CheckReason::Uninstalling, problem));
    }
    match AutoscalerConfig::parse(&map.data.clone().unwrap_or_default()) {
        Ok(config) if !config.defaults.zero.enabled => {
            findings.extend(disabled(&object, workloads));
        }
        Ok(_) => {}
        Err(errors) => findings.extend(errors.iter().map(|error| {
            let problem =
                format!("{error}; the whole ConfigMap is ignored, and the last valid settings stay in force");
            Finding::error(&object, Reason::BadSetting, problem)
        })),
    }
    findings
}

/// Workloads that ask for what the cluster does not allow.
fn disabled(object: &str, workloads: &[WorkloadObjects]) -> Option<Finding> {
    let asking: Vec<&WorkloadObjects> = workloads.iter().filter(|it| it.goes_to_zero()).collect();
    let first = asking.first()?;
    let problem = format!(
        "enable-scale-to-zero is false, so none of the {} workloads with scale-to-zero goes to zero, such \
         as {}",
        asking.len(),
        first.key
    );
    Some(Finding::warning(object, Reason::ScaleToZeroDisabled, problem))
}
