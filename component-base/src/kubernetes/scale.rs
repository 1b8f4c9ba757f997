//! Replica counts, through the `/scale` subresource of any object that has one.
//!
//! The objects come from [`ApiResources`](super::ApiResources). Used by the zero-scaler, and by the
//! activator while no zero-scaler is reachable.
//!
//! Writes above zero replace the Scale, as the HPA does. That takes the API server a sixth less
//! time than a patch, and a request waits for it. A size of 0 of the group `apps` is applied: the
//! API server omits it from a Scale that is replaced, and then forgets the owner of the size, and
//! those of all later updates too. It cannot apply the Scale of a custom resource (1.37: status
//! 500).

use k8s_openapi::api::autoscaling::v1::{Scale, ScaleSpec};
use kube::Api;
use kube::api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};

/// Path of the group whose objects' owners of the size are read, those of watched targets.
const APPS: &str = "/apis/apps/";

/// A replica count, and the resource version on which a write can depend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedReplicas {
    /// The replica count of the spec.
    pub replicas: i32,
    /// `None` makes the next write unconditional. The API server always sends one.
    pub resource_version: Option<String>,
}

/// Result of one attempt to scale from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleFromZeroResult {
    /// The replica count was written.
    Scaled,
    /// The replica count was above zero already.
    AboveZero,
    /// The object changed between read and write.
    Conflict,
}

/// The `/scale` of one object. A trait, so that a caller can read from its cache.
pub trait ScaleSubresource: Sync {
    /// Why a read or a write failed.
    type Error: Send;

    /// Reads the replica count.
    fn read(&self) -> impl Future<Output = Result<ObservedReplicas, Self::Error>> + Send;

    /// Writes the replica count; with a `version`, only if the object did not change since.
    fn write(
        &self,
        replicas: i32,
        version: Option<&str>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether a write failed because the object has another version.
    fn is_conflict(error: &Self::Error) -> bool;
}

/// The `/scale` of one object, without a cache.
#[derive(Clone, Debug)]
pub struct ObjectScale<'a> {
    /// The objects of its kind and namespace.
    pub objects: Api<DynamicObject>,
    pub name: &'a str,
    /// The writer's name in managed fields.
    pub field_manager: &'a str,
}

/// Whether a write failed because another one of the object came first. Admission webhooks answer
/// with the same status code, and the next attempt gets the same answer.
pub fn is_conflict(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 409 && status.message.starts_with("Operation cannot be fulfilled")
}

/// Writes a replica count where it is zero, in one attempt.
///
/// `observed` is the replica count as last seen by the caller; without one it is read first.
///
/// # Errors
/// Those of the subresource, except conflicts.
pub async fn scale_from_zero<S: ScaleSubresource>(
    target: &S,
    observed: Option<ObservedReplicas>,
    replicas: i32,
) -> Result<ScaleFromZeroResult, S::Error> {
    let observed = match observed {
        Some(observed) => observed,
        None => target.read().await?,
    };
    if observed.replicas > 0 {
        return Ok(ScaleFromZeroResult::AboveZero);
    }
    match target.write(replicas, observed.resource_version.as_deref()).await {
        Ok(()) => Ok(ScaleFromZeroResult::Scaled),
        Err(error) if S::is_conflict(&error) => Ok(ScaleFromZeroResult::Conflict),
        Err(error) => Err(error),
    }
}

/// Writes a replica count, under the writer's name in managed fields; with a `version`, only if the
/// object did not change since.
///
/// # Errors
/// Those of the API server: status 409 if the object has another version.
pub async fn write_scale(
    objects: &Api<DynamicObject>,
    name: &str,
    replicas: i32,
    version: Option<&str>,
    field_manager: &str,
) -> Result<Scale, kube::Error> {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: objects.namespace().map(str::to_owned),
        resource_version: version.map(str::to_owned),
        ..ObjectMeta::default()
    };
    let scale = Scale { metadata, spec: Some(ScaleSpec { replicas: Some(replicas) }), status: None };
    if replicas == 0 && objects.resource_url().starts_with(APPS) {
        let params = PatchParams::apply(field_manager).force();
        return objects.patch_scale(name, &params, &Patch::Apply(&scale)).await;
    }
    let params = PostParams { field_manager: Some(field_manager.to_owned()), ..PostParams::default() };
    objects.replace_scale(name, &params, &scale).await
}

// === impl ObjectScale ===

impl ScaleSubresource for ObjectScale<'_> {
    type Error = kube::Error;

    async fn read(&self) -> Result<ObservedReplicas, kube::Error> {
        let scale = self.objects.get_scale(self.name).await?;
        Ok(ObservedReplicas {
            replicas: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
            resource_version: scale.metadata.resource_version,
        })
    }

    async fn write(&self, replicas: i32, version: Option<&str>) -> Result<(), kube::Error> {
        write_scale(&self.objects, self.name, replicas, version, self.field_manager).await.map(drop)
    }

    fn is_conflict(error: &kube::Error) -> bool {
        is_conflict(error)
    }
}
