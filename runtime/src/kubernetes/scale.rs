//! Writes a workload's size through its `/scale` subresource.
//!
//! Used by zero-scaler for scaling to and from zero, and by the activator's fallback waker. Like
//! the HPA it replaces the whole Scale, which contains only the size. The API server takes a sixth
//! less time for that than for a patch, and a held request waits for it.

use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec};
use kube::Api;
use kube::api::{DynamicObject, ObjectMeta, PostParams};

/// Writes `replicas`, recorded in managed fields under `field_manager`. With `version` the write
/// fails if the object has changed since.
///
/// # Errors
/// The API server's response: 409 if the object has changed.
pub async fn write_scale(
    api: &Api<DynamicObject>,
    name: &str,
    replicas: i32,
    version: Option<&str>,
    field_manager: &str,
) -> Result<Scale, kube::Error> {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: api.namespace().map(str::to_owned),
        resource_version: version.map(str::to_owned),
        ..ObjectMeta::default()
    };
    let scale = Scale { metadata, spec: Some(ScaleSpec { replicas: Some(replicas) }), status: None };
    let params = PostParams { field_manager: Some(field_manager.to_owned()), ..PostParams::default() };
    api.replace_scale(name, &params, &scale).await
}
