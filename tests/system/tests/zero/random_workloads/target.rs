//! The scale target of a random workload, of whatever kind.

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersion;
use serde_json::{Value, json};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::scale::write_scale;
use system_tests::workloads::random::description::Description;

/// A target. Clones are of the same one.
#[derive(Clone)]
pub(super) struct Target {
    api: Api<DynamicObject>,
    name: String,
}

// === impl Target ===

impl Target {
    pub(super) fn of(workload: &Description, namespace: &TestNamespace) -> Result<Self> {
        let (api_version, kind, plural) = workload.resource();
        let version: GroupVersion = api_version.parse()?;
        let resource = ApiResource::from_gvk_with_plural(&version.with_kind(kind), plural);
        let api = Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource);
        Ok(Self { api, name: workload.names.target.clone() })
    }

    pub(super) async fn create(&self, object: Value) -> Result<()> {
        self.api
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await
            .context("the target")?;
        Ok(())
    }

    pub(super) async fn size(&self) -> Result<i64> {
        let object = self.api.get(&self.name).await?;
        Ok(object.data.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1))
    }

    /// Writes its size, as `kubectl scale` does.
    pub(super) async fn scale(&self, size: i32) -> Result<()> {
        write_scale(&self.api, &self.name, size).await
    }

    /// Changes the template of its pods, which a custom resource has not.
    pub(super) async fn patch_template(&self, template: Value) -> Result<()> {
        self.patch(json!({"template": template})).await
    }

    pub(super) async fn patch(&self, spec: Value) -> Result<()> {
        let patch = Patch::Strategic(json!({"spec": spec}));
        self.api.patch(&self.name, &PatchParams::default(), &patch).await.context("changing the target")?;
        Ok(())
    }
}
