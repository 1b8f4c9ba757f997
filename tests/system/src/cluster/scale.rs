//! The scale subresource.

use anyhow::Result;
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Writes `spec.replicas` of any resource with a scale subresource, as `kubectl scale` does.
///
/// # Errors
/// When the API refuses.
pub async fn write_scale<K>(objects: &Api<K>, name: &str, replicas: i32) -> Result<()>
where
    K: Clone + DeserializeOwned,
{
    let patch = json!({"spec": {"replicas": replicas}});
    objects.patch_scale(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
