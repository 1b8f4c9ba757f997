//! Maps kinds of scale targets to API resources.
//!
//! Objects name their scale target by API version and kind, and requests need the resource name. It
//! comes from discovery, once for each kind. The scalable kinds of `apps/v1` are built in, so that
//! no wake waits for discovery. A kind without the subresource `scale` is an error.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;

/// Kinds that are cached; further ones need discovery each time.
const MAX_CACHED: usize = 256;
/// The subresource of scalable kinds.
const SCALE: &str = "scale";

/// The API resources of a cluster. Clones share one cache.
#[derive(Clone)]
pub struct ApiResources {
    client: Client,
    cache: Arc<Mutex<HashMap<GroupVersionKind, ApiResource>>>,
}

/// Why objects of a kind cannot be scaled.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// Discovery failed, or the cluster has no such kind.
    #[error(transparent)]
    Discovery(#[from] kube::Error),
    /// The kind has no subresource `scale`.
    #[error("the kind has no scale subresource")]
    NotScalable,
}

// === impl ApiResources ===

impl std::fmt::Debug for ApiResources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiResources").finish_non_exhaustive()
    }
}

impl ApiResources {
    /// The API resources of this client's cluster.
    pub fn new(client: Client) -> Self {
        Self { client, cache: Arc::default() }
    }

    /// The API of a kind in a namespace.
    ///
    /// # Errors
    /// When discovery fails, the cluster has no such kind, or the kind cannot be scaled.
    pub async fn api(
        &self,
        namespace: &str,
        api_version: &str,
        kind: &str,
    ) -> Result<Api<DynamicObject>, KindError> {
        let gvk = gvk(api_version, kind);
        let cached = built_in(&gvk).or_else(|| self.cache.lock().get(&gvk).cloned());
        let resource = match cached {
            Some(resource) => resource,
            None => self.discover(gvk).await?,
        };
        Ok(Api::namespaced_with(self.client.clone(), namespace, &resource))
    }

    async fn discover(&self, gvk: GroupVersionKind) -> Result<ApiResource, KindError> {
        let (resource, capabilities) = kube::discovery::pinned_kind(&self.client, &gvk).await?;
        if !capabilities.subresources.iter().any(|(subresource, _)| subresource.plural == SCALE) {
            return Err(KindError::NotScalable);
        }
        let mut cache = self.cache.lock();
        if cache.len() < MAX_CACHED {
            cache.insert(gvk, resource.clone());
        }
        Ok(resource)
    }
}

fn built_in(gvk: &GroupVersionKind) -> Option<ApiResource> {
    let plural = match (gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()) {
        ("apps", "v1", "Deployment") => Deployment::plural(&()),
        ("apps", "v1", "StatefulSet") => StatefulSet::plural(&()),
        ("apps", "v1", "ReplicaSet") => ReplicaSet::plural(&()),
        _ => return None,
    };
    Some(ApiResource::from_gvk_with_plural(gvk, &plural))
}

fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_apps_v1_need_no_discovery() {
        let built_in = |api_version, kind| built_in(&gvk(api_version, kind)).map(|resource| resource.plural);
        assert_eq!(built_in("apps/v1", "ReplicaSet").as_deref(), Some("replicasets"));
        assert_eq!(built_in("apps/v1", "Deployment").as_deref(), Some("deployments"));
        assert_eq!(built_in("example.com/v1", "Deployment"), None);
        assert_eq!(gvk("v1", "ReplicationController").group, "");
    }
}
