//! The replica count of anything that has one: read and written through the `/scale` subresource.
//!
//! Deployments and StatefulSets are watched, so their size is known without asking; any other kind is asked for.
//!
//! A watch is a little behind: until it has caught up with what we wrote ourselves, the target counts as not known.
//!
//! A write may carry the version that was read: then the API server refuses it when anything has changed since, and the
//! caller decides anew. Going to zero and waking always do.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use autoscaler::api::ScaleTargetRef;
use kube::Client;
use kube::api::{Api, DynamicObject};
use parking_lot::Mutex;
use runtime::kubernetes;
use runtime::kubernetes::ApiResources;

use crate::FIELD_MANAGER;
use crate::cache::cached_target::{CachedTarget, last_writer};
use crate::cache::cluster_cache::ClusterCache;
use crate::kubernetes::reasons::Reason;
use crate::pods::sidecar::Sidecar;
use crate::scaling::scale::{Scale, Writer};

const CONFLICT: u16 = 409;
const NOT_FOUND: u16 = 404;

/// Why a size could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// There is no such object.
    #[error("there is no {0}: make it, or name another in scaleTargetRef")]
    NotFound(String),
    /// It changed since it was read.
    #[error("{0} changed since it was read")]
    Conflict(String),
    /// The cluster knows no such kind.
    #[error(
        "the cluster has no {kind} in {api_version} ({source}): correct scaleTargetRef, or install what defines that kind"
    )]
    UnknownKind {
        /// The kind asked for.
        kind: String,
        /// Its group and version.
        api_version: String,
        /// What discovery answered.
        source: Box<kube::Error>,
    },
    /// Anything else.
    #[error("{0}: {1}")]
    Api(String, Box<kube::Error>),
}

/// Reads and writes sizes. A trait, because a cluster cannot be made to answer slowly or refuse on demand.
pub trait ScaleAccess: Send + Sync + 'static {
    /// The size as the watches have it; `None` for kinds that are not watched.
    fn known(&self, namespace: &str, target: &ScaleTargetRef) -> Option<Scale>;

    /// The size, asked for.
    fn read(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
    ) -> impl Future<Output = Result<Scale, ScaleError>> + Send;

    /// Writes a size; with `version` only if nothing changed since.
    fn write(
        &self,
        namespace: &str,
        target: &ScaleTargetRef,
        replicas: i32,
        version: Option<&str>,
    ) -> impl Future<Output = Result<(), ScaleError>> + Send;
}

/// The cluster's targets.
pub struct ScaleTargets {
    kinds: ApiResources,
    objects: Arc<ClusterCache>,
    written: Mutex<HashMap<(String, ScaleTargetRef), u64>>,
}

// === impl ScaleError ===

impl ScaleError {
    fn of(target: &ScaleTargetRef, error: kube::Error) -> Self {
        let name = format!("{} {}", target.kind, target.name);
        match error {
            kube::Error::Api(status) if status.code == NOT_FOUND => Self::NotFound(name),
            kube::Error::Api(status) if status.code == CONFLICT => Self::Conflict(name),
            error => Self::Api(name, Box::new(error)),
        }
    }

    /// Of the question which resource a kind is.
    fn of_kind(target: &ScaleTargetRef, error: kube::Error) -> Self {
        let unknown = match &error {
            kube::Error::Api(status) => status.code == NOT_FOUND,
            error => matches!(error, kube::Error::Discovery(_)),
        };
        if !unknown {
            return Self::of(target, error);
        }
        let (kind, api_version) = (target.kind.clone(), target.api_version.clone());
        Self::UnknownKind { kind, api_version, source: Box::new(error) }
    }

    /// The condition's reason.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotFound(_) => Reason::TargetNotFound,
            Self::Conflict(_) => Reason::TargetChanged,
            Self::UnknownKind { .. } => Reason::UnknownTargetKind,
            Self::Api(..) => Reason::TargetUnreadable,
        }
    }
}

// === impl ScaleTargets ===

impl std::fmt::Debug for ScaleTargets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScaleTargets").finish_non_exhaustive()
    }
}

impl ScaleTargets {
    /// Targets as the watches know them, and the rest as the API server does.
    pub fn new(client: Client, objects: Arc<ClusterCache>) -> Self {
        Self { kinds: ApiResources::new(client), objects, written: Mutex::default() }
    }

    /// What its pods' template says of the sidecar, if the target is watched.
    pub fn sidecar(&self, namespace: &str, target: &ScaleTargetRef) -> Option<Sidecar> {
        Some(self.watched(namespace, target)?.sidecar)
    }

    /// Forgets targets that are gone; to be called now and then.
    pub(crate) fn prune(&self) {
        let mut written = self.written.lock();
        written.retain(|(namespace, target), _| self.watched(namespace, target).is_some());
    }

    async fn api(&self, namespace: &str, target: &ScaleTargetRef) -> Result<Api<DynamicObject>, ScaleError> {
        let objects = self.kinds.api(namespace, &target.api_version, &target.kind).await;
        objects.map_err(|error| ScaleError::of_kind(target, error))
    }
}

impl ScaleTargets {
    fn watched(&self, namespace: &str, target: &ScaleTargetRef) -> Option<Arc<CachedTarget>> {
        let known = match (target.api_version.as_str(), target.kind.as_str()) {
            ("apps/v1", "Deployment") => &self.objects.deployments,
            ("apps/v1", "StatefulSet") => &self.objects.stateful_sets,
            _ => return None,
        };
        known.get(namespace, &target.name)
    }

    /// Whether a version is at least as new as our own last write. Versions of one kind can be compared as numbers.
    fn caught_up(&self, namespace: &str, target: &ScaleTargetRef, version: &str) -> bool {
        let mut written = self.written.lock();
        let key = (namespace.to_owned(), target.clone());
        let behind =
            written.get(&key).is_some_and(|ours| version.parse::<u64>().is_ok_and(|seen| seen < *ours));
        if !behind {
            written.remove(&key);
        }
        !behind
    }

    fn wrote(&self, namespace: &str, target: &ScaleTargetRef, version: Option<String>) {
        // ApiResources that are not watched have nothing to catch up.
        if let Some(version) = version.and_then(|v| v.parse().ok())
            && self.watched(namespace, target).is_some()
        {
            let mut written = self.written.lock();
            written.insert((namespace.to_owned(), target.clone()), version);
        }
    }
}

impl ScaleAccess for ScaleTargets {
    fn known(&self, namespace: &str, target: &ScaleTargetRef) -> Option<Scale> {
        let scale = &self.watched(namespace, target)?.scale;
        self.caught_up(namespace, target, &scale.resource_version).then(|| scale.clone())
    }

    async fn read(&self, namespace: &str, target: &ScaleTargetRef) -> Result<Scale, ScaleError> {
        let api = self.api(namespace, target).await?;
        let failed = |error| ScaleError::of(target, error);
        let scale = api.get_scale(&target.name).await.map_err(failed)?;
        let replicas = scale.spec.and_then(|s| s.replicas).unwrap_or(0);
        // A Scale carries no managedFields; who wrote it matters only at zero.
        let writer = match replicas {
            // Whoever may read the scale may not be allowed to read the object.
            0 => api
                .get_metadata(&target.name)
                .await
                .map_or(Writer::Unknown, |object| last_writer(&object.metadata)),
            _ => Writer::Unknown,
        };
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
        let written = kubernetes::write_scale(&api, &target.name, replicas, version, FIELD_MANAGER).await;
        let scale = written.map_err(|error| ScaleError::of(target, error))?;
        self.wrote(namespace, target, scale.metadata.resource_version);
        Ok(())
    }
}
