//! Scale: writes how many pods an object should have, through its `/scale` subresource.
//!
//! The objects come from [`Kinds`](crate::kinds::Kinds), the number from whoever puts to zero and wakes: the zero-scaler, and the
//! activator where there is none. A merge patch, so no other field is touched.

use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

/// Writes a size, under the writer's name in managed fields; with `version` only if nothing changed since.
///
/// # Errors
/// Whatever the API server answers: 409 where something did.
pub async fn write(
    objects: &Api<DynamicObject>,
    name: &str,
    replicas: i32,
    version: Option<&str>,
    field_manager: &str,
) -> Result<Scale, kube::Error> {
    let spec = json!({"replicas": replicas});
    let patch = match version {
        Some(version) => json!({"metadata": {"resourceVersion": version}, "spec": spec}),
        None => json!({"spec": spec}),
    };
    let params = PatchParams { field_manager: Some(field_manager.to_owned()), ..PatchParams::default() };
    objects.patch_scale(name, &params, &Patch::Merge(patch)).await
}
