//! The JSON patch that adds the sidecar to a pod. Input: the pod and the sidecar's settings.
//!
//! Every operation fits its pod. The API server rejects a pod with a patch that does not fit, under
//! each failure policy.

use autoscaler::contract::WAIT_FOR_DRAIN_PATH;
use autoscaler::contract::sidecar_ports::SidecarPorts;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, ReplaceOperation};
use k8s_openapi::api::core::v1::{Container, Lifecycle, LifecycleHandler, Pod};
use serde::Serialize;
use serde_json::json;

use crate::sidecar_injection::SidecarSettings;
use crate::sidecar_injection::app_pod::AppPod;
use crate::sidecar_injection::app_probe::sidecar_action;
use crate::sidecar_injection::sidecar;

/// Why there is no patch.
#[derive(Debug, thiserror::Error)]
pub enum PodPatchError {
    /// A pod that the API server rejects by itself.
    #[error("the pod has no containers")]
    NoContainers,
    /// A value could not be encoded.
    #[error("the patch could not be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

/// The patch; empty for a pod that has a sidecar.
///
/// # Errors
/// When the pod has no containers.
pub fn pod_patch(pod: &Pod, settings: &SidecarSettings) -> Result<Patch, PodPatchError> {
    let pod = AppPod::new(pod).ok_or(PodPatchError::NoContainers)?;
    if pod.has_sidecar() {
        return Ok(Patch(Vec::new()));
    }
    let ports = pod.sidecar_ports();
    let mut operations = add_sidecar(&pod, settings)?;
    if let Some(probe) = pod.probe() {
        operations.push(PatchOperation::Replace(ReplaceOperation {
            path: PointerBuf::from_tokens(["spec", "containers", "0", "readinessProbe"]),
            value: serde_json::to_value(probe.replacement(ports))?,
        }));
    }
    for (index, container) in pod.spec().containers.iter().enumerate() {
        operations.extend(delay_stop(&index.to_string(), container, ports)?);
    }
    Ok(Patch(operations))
}

fn add_sidecar(pod: &AppPod<'_>, settings: &SidecarSettings) -> Result<Vec<PatchOperation>, PodPatchError> {
    let sidecar = sidecar::container(pod, settings)?;
    if pod.is_app_first() {
        return Ok(vec![add(["spec", "containers", "-"], &sidecar)?]);
    }
    let mut operations = Vec::new();
    if pod.spec().init_containers.is_none() {
        operations.push(add(["spec", "initContainers"], &json!([]))?);
    }
    operations.push(add(["spec", "initContainers", "-"], &sidecar)?);
    Ok(operations)
}

/// Delays the SIGTERM of a container until the sidecar has finished the last request. A preStop
/// hook of the container's own is kept.
fn delay_stop(
    index: &str,
    container: &Container,
    sidecar: SidecarPorts,
) -> Result<Option<PatchOperation>, PodPatchError> {
    let hook = LifecycleHandler {
        http_get: Some(sidecar_action(WAIT_FOR_DRAIN_PATH, sidecar)),
        ..LifecycleHandler::default()
    };
    let operation = match &container.lifecycle {
        None => {
            let lifecycle = Lifecycle { pre_stop: Some(hook), ..Lifecycle::default() };
            add(["spec", "containers", index, "lifecycle"], &lifecycle)?
        }
        Some(lifecycle) if lifecycle.pre_stop.is_none() => {
            add(["spec", "containers", index, "lifecycle", "preStop"], &hook)?
        }
        Some(_) => return Ok(None),
    };
    Ok(Some(operation))
}

fn add<const N: usize>(path: [&str; N], value: &impl Serialize) -> Result<PatchOperation, PodPatchError> {
    let (path, value) = (PointerBuf::from_tokens(path), serde_json::to_value(value)?);
    Ok(PatchOperation::Add(AddOperation { path, value }))
}
