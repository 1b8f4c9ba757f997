//! ScaleTarget: the scale subresource of a workload's target.

use std::fmt;

use autoscaler::api::ScaleTargetRef;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};

use crate::connection::Session;
use crate::error::CommandError;

/// Name of the writer in the managed fields.
const FIELD_MANAGER: &str = "kubectl-rouse";

/// The target of a workload.
pub(super) struct ScaleTarget {
    objects: Api<DynamicObject>,
    kind: String,
    name: String,
}

/// What was read of a target.
pub(super) struct ReadScale {
    pub(super) replicas: i32,
    version: Option<String>,
}

// === impl ScaleTarget ===

impl ScaleTarget {
    /// The resource of the target's kind, in another version of its group if the named one is not
    /// served; kinds outside of `apps` need discovery.
    pub(super) async fn find(
        session: &Session,
        namespace: &str,
        target: &ScaleTargetRef,
    ) -> Result<Self, CommandError> {
        let resource = match (target.group(), target.kind.as_str()) {
            ("apps", "Deployment") => ApiResource::erase::<Deployment>(&()),
            ("apps", "StatefulSet") => ApiResource::erase::<StatefulSet>(&()),
            _ => discovered(session, target).await?,
        };
        Ok(Self {
            objects: Api::namespaced_with(session.client.clone(), namespace, &resource),
            kind: target.kind.clone(),
            name: target.name.clone(),
        })
    }

    pub(super) async fn read(&self) -> Result<ReadScale, CommandError> {
        let scale = self.objects.get_scale(&self.name).await;
        let scale = scale.map_err(|error| CommandError::request(format!("scale of {self}"), error))?;
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        Ok(ReadScale { replicas, version: scale.metadata.resource_version })
    }

    /// Writes a replica count, unless the target changed since it was read; returns whether it was
    /// written. A controller that writes the target's status changes it as well.
    pub(super) async fn write(&self, replicas: i32, read: &ReadScale) -> Result<bool, CommandError> {
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: self.objects.namespace().map(str::to_owned),
            resource_version: read.version.clone(),
            ..ObjectMeta::default()
        };
        let scale = Scale { metadata, spec: Some(ScaleSpec { replicas: Some(replicas) }), status: None };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.objects.replace_scale(&self.name, &params, &scale).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(CommandError::request(format!("scale {self} to {replicas}"), error)),
        }
    }
}

async fn discovered(session: &Session, target: &ScaleTargetRef) -> Result<ApiResource, CommandError> {
    let version = target.api_version.rsplit('/').next().unwrap_or_default();
    let gvk = GroupVersionKind::gvk(target.group(), version, &target.kind);
    let named = kube::discovery::pinned_kind(&session.client, &gvk).await;
    let error = match named {
        Ok((resource, _)) => return Ok(resource),
        Err(error) => error,
    };
    let group = kube::discovery::group(&session.client, target.group()).await.ok();
    let other = group.and_then(|group| group.recommended_kind(&target.kind));
    let what = || format!("kind {} of {}", target.kind, target.api_version);
    other.map(|(resource, _)| resource).ok_or_else(|| CommandError::request(what(), error))
}

impl fmt::Display for ScaleTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}
