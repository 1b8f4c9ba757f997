//! Replica counts of scale targets, read and written through the `/scale` subresource.
//!
//! Deployments and StatefulSets are watched, so their counts come from the cache. Other kinds are
//! read from the API server.
//!
//! A watch lags behind our own writes. Until it has caught up, the cache has no count for the
//! target.
//!
//! A write can depend on the resource version that was read. The API server then rejects it with a
//! conflict if the object has changed since. All writes to zero and from zero depend on it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use autoscaler::api::ScaleTargetRef;
use component_base::kubernetes::{
    ApiResources, KindError, ObservedReplicas, ScaleSubresource, is_conflict, write_scale,
};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::PartialObjectMeta;
use parking_lot::Mutex;

use crate::FIELD_MANAGER;
use crate::cache::cached_target::scale::{Scale, Writer};
use crate::cache::cached_target::{CachedTarget, last_writer};
use crate::cache::cluster_cache::ClusterCache;
use crate::kubernetes::reasons::Reason;
use crate::kubernetes::server_side_apply::controller_of;

const NOT_FOUND: u16 = 404;
/// Kind of the objects that a Deployment, and a Rollout, makes.
const REPLICA_SET: &str = "ReplicaSet";

/// Why a replica count could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// The object does not exist.
    #[error("{0} not found; create it, or correct scaleTargetRef")]
    NotFound(String),
    /// The object changed since it was read.
    #[error("{0} changed since it was read")]
    Conflict(String),
    /// The API server does not serve the kind.
    #[error(
        "the cluster has no kind {kind} in {api_version} ({source}); correct scaleTargetRef, or install the \
         CustomResourceDefinition of this kind"
    )]
    UnknownKind {
        /// The kind in scaleTargetRef.
        kind: String,
        /// Its group and version.
        api_version: String,
        /// The error of discovery.
        source: Box<kube::Error>,
    },
    /// The kind has no replicas.
    #[error(
        "kind {kind} in {api_version} has no scale subresource, so an HPA cannot scale it either; name a Deployment, \
         a StatefulSet or another kind with one in scaleTargetRef"
    )]
    NotScalable {
        /// The kind in scaleTargetRef.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// A ReplicaSet of a Deployment or the like, which reverts each size.
    #[error(
        "{target} is controlled by {controller}, which reverts each size; name {controller} in scaleTargetRef"
    )]
    Controlled {
        /// The target.
        target: String,
        /// Its controller.
        controller: String,
    },
    /// Any other error of the API server.
    #[error("{0}: {1}")]
    Api(String, Box<kube::Error>),
}

/// Reads and writes replica counts. A trait, so that tests can delay and reject writes.
pub trait ScaleAccess: Send + Sync + 'static {
    /// The scale in the cache; `None` for kinds that are not watched, and while the watch lags
    /// behind our last write.
    fn cached(&self, namespace: &str, target: &ScaleTargetRef) -> Option<Scale>;

    /// Reads the scale from the API server.
    fn read(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
    ) -> impl Future<Output = Result<Scale, ScaleError>> + Send;

    /// Writes a replica count; with a `version`, only if the object did not change since.
    fn write(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
        replicas: i32,
        version: Option<&str>,
    ) -> impl Future<Output = Result<(), ScaleError>> + Send;
}

/// The scale targets of the cluster.
pub struct ScaleTargets {
    resources: ApiResources,
    cache: Arc<ClusterCache>,
    /// Resource versions of our last writes, until the watch has caught up.
    written: Mutex<HashMap<(String, ScaleTargetRef), u64>>,
}

/// The `/scale` of one target, as [`component_base::kubernetes::scale_from_zero`] takes it.
#[derive(Debug)]
pub struct TargetScale<'a, S> {
    /// Access to the cluster's scales.
    pub scales: &'a S,
    pub namespace: &'a str,
    pub target: &'a ScaleTargetRef,
}

// === impl ScaleError ===

impl ScaleError {
    /// The error of a write that lost against another.
    pub(crate) fn conflict(target: &ScaleTargetRef) -> Self {
        Self::Conflict(describe(target))
    }

    fn of(target: &ScaleTargetRef, error: kube::Error) -> Self {
        let name = describe(target);
        match error {
            kube::Error::Api(status) if status.code == NOT_FOUND => Self::NotFound(name),
            error if is_conflict(&error) => Self::Conflict(name),
            error => Self::Api(name, Box::new(error)),
        }
    }

    /// An error of the discovery of the target's kind.
    fn of_kind(target: &ScaleTargetRef, error: KindError) -> Self {
        let (kind, api_version) = (target.kind.clone(), target.api_version.clone());
        let error = match error {
            KindError::Discovery(error) => error,
            KindError::NotScalable => return Self::NotScalable { kind, api_version },
        };
        let is_unknown = match &error {
            kube::Error::Api(status) => status.code == NOT_FOUND,
            error => matches!(error, kube::Error::Discovery(_)),
        };
        if !is_unknown {
            return Self::of(target, error);
        }
        Self::UnknownKind { kind, api_version, source: Box::new(error) }
    }

    /// The reason for conditions.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotFound(_) => Reason::TargetNotFound,
            Self::Conflict(_) => Reason::TargetChanged,
            Self::UnknownKind { .. } => Reason::UnknownTargetKind,
            Self::NotScalable { .. } => Reason::TargetNotScalable,
            Self::Controlled { .. } => Reason::ScaleConflict,
            Self::Api(..) => Reason::TargetUnreadable,
        }
    }
}

fn describe(target: &ScaleTargetRef) -> String {
    format!("{} {:?}", target.kind, target.name)
}

/// Other kinds with a controller may be scaled: an operator often leaves their size to an HPA.
fn check_controller(
    target: &ScaleTargetRef,
    object: &PartialObjectMeta<DynamicObject>,
) -> Result<(), ScaleError> {
    let controller = controller_of(object).filter(|_| target.kind == REPLICA_SET);
    controller.map_or(Ok(()), |it| {
        let controller = format!("{} {:?}", it.kind, it.name);
        Err(ScaleError::Controlled { target: describe(target), controller })
    })
}

// === impl ScaleTargets ===

impl std::fmt::Debug for ScaleTargets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScaleTargets").finish_non_exhaustive()
    }
}

impl ScaleTargets {
    /// Reads watched kinds from `cache`, and other kinds through `client`.
    pub fn new(client: Client, cache: Arc<ClusterCache>) -> Self {
        Self { resources: ApiResources::new(client), cache, written: Mutex::default() }
    }

    /// Why the API server refuses the target's pods, if its kind reports that.
    pub fn refused_pods(&self, namespace: &str, target: &ScaleTargetRef) -> Option<String> {
        self.watched(namespace, target)?.refused_pods.clone()
    }

    /// Drops targets that no longer exist. Call it periodically.
    pub(crate) fn prune(&self) {
        let mut written = self.written.lock();
        written.retain(|(namespace, target), _| self.watched(namespace, target).is_some());
    }

    async fn api(&self, namespace: &str, target: &ScaleTargetRef) -> Result<Api<DynamicObject>, ScaleError> {
        let objects = self.resources.api(namespace, &target.api_version, &target.kind).await;
        objects.map_err(|error| ScaleError::of_kind(target, error))
    }

    /// An error of a request. The server does not find a version either that it no longer serves.
    fn failed(&self, target: &ScaleTargetRef, error: kube::Error) -> ScaleError {
        let error = ScaleError::of(target, error);
        if matches!(error, ScaleError::NotFound(_)) {
            self.resources.invalidate(&target.api_version, &target.kind);
        }
        error
    }
}

impl ScaleTargets {
    /// The target in the cache; `None` for kinds that are not watched.
    pub fn watched(&self, namespace: &str, target: &ScaleTargetRef) -> Option<Arc<CachedTarget>> {
        let store = match (target.group(), target.kind.as_str()) {
            ("apps", "Deployment") => &self.cache.deployments,
            ("apps", "StatefulSet") => &self.cache.stateful_sets,
            _ => return None,
        };
        store.get(namespace, &target.name)
    }

    /// Whether `version` is at least as new as our last write. Versions of one kind compare as
    /// numbers.
    fn caught_up(&self, namespace: &str, target: &ScaleTargetRef, version: &str) -> bool {
        let mut written = self.written.lock();
        let key = (namespace.to_owned(), target.clone());
        let is_behind =
            written.get(&key).is_some_and(|ours| version.parse::<u64>().is_ok_and(|seen| seen < *ours));
        if !is_behind {
            written.remove(&key);
        }
        !is_behind
    }

    fn record_write(&self, namespace: &str, target: &ScaleTargetRef, version: Option<String>) {
        // Kinds that are not watched are always read from the API server.
        if let Some(version) = version.and_then(|v| v.parse().ok())
            && self.watched(namespace, target).is_some()
        {
            let mut written = self.written.lock();
            written.insert((namespace.to_owned(), target.clone()), version);
        }
    }
}

impl ScaleAccess for ScaleTargets {
    fn cached(&self, namespace: &str, target: &ScaleTargetRef) -> Option<Scale> {
        let scale = &self.watched(namespace, target)?.scale;
        self.caught_up(namespace, target, &scale.resource_version).then(|| scale.clone())
    }

    async fn read(&self, namespace: &str, target: &ScaleTargetRef) -> Result<Scale, ScaleError> {
        let api = self.api(namespace, target).await?;
        let scale = api.get_scale(&target.name).await.map_err(|error| self.failed(target, error))?;
        let replicas = scale.spec.and_then(|s| s.replicas).unwrap_or(0);
        // A Scale has no managedFields. RBAC may allow `get` of `/scale` and not of the object.
        let object = api.get_metadata(&target.name).await.ok();
        object.iter().try_for_each(|object| check_controller(target, object))?;
        let writer = object.map_or(Writer::Unknown, |object| last_writer(&object.metadata));
        Ok(Scale {
            replicas,
            selector: scale.status.and_then(|s| s.selector).unwrap_or_default(),
            resource_version: scale.metadata.resource_version.unwrap_or_default(),
            writer,
        })
    }

    async fn write(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
        replicas: i32,
        version: Option<&str>,
    ) -> Result<(), ScaleError> {
        let api = self.api(namespace, target).await?;
        let written = write_scale(&api, &target.name, replicas, version, FIELD_MANAGER).await;
        let scale = written.map_err(|error| self.failed(target, error))?;
        self.record_write(namespace, target, scale.metadata.resource_version);
        Ok(())
    }
}

// === impl TargetScale ===

impl<S: ScaleAccess> ScaleSubresource for TargetScale<'_, S> {
    type Error = ScaleError;

    async fn read(&self) -> Result<ObservedReplicas, ScaleError> {
        let scale = self.scales.read(self.namespace, self.target).await?;
        Ok(ObservedReplicas::from(&scale))
    }

    async fn write(&self, replicas: i32, version: Option<&str>) -> Result<(), ScaleError> {
        self.scales.write(self.namespace, self.target, replicas, version).await
    }

    fn is_conflict(error: &ScaleError) -> bool {
        matches!(error, ScaleError::Conflict(_))
    }
}
