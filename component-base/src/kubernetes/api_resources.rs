//! Maps kinds of scale targets to API resources.
//!
//! Objects name their scale target by API version and kind, and requests need the resource name. It
//! comes from discovery, once for each kind. The scalable kinds of `apps` are built in, so that no
//! wake waits for discovery. A kind without the subresource `scale` is an error.
//!
//! What surprises: the version is only preferred. If the cluster does not serve it, or it has no
//! scale, another version of the group takes its place, because the HPA controller ignores it too.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::discovery::ApiCapabilities;
use kube::{Api, Client};
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

    /// Discovers a kind again at its next use: a version that was served may be gone.
    pub fn invalidate(&self, api_version: &str, kind: &str) {
        self.cache.lock().remove(&gvk(api_version, kind));
    }

    async fn discover(&self, gvk: GroupVersionKind) -> Result<ApiResource, KindError> {
        let named = kube::discovery::pinned_kind(&self.client, &gvk).await;
        let resource = match &named {
            Ok((resource, capabilities)) if is_scalable(capabilities) => resource.clone(),
            _ => match self.other_version(&gvk).await {
                Some(resource) => resource,
                None => return Err(named.map_or_else(KindError::Discovery, |_| KindError::NotScalable)),
            },
        };
        let mut cache = self.cache.lock();
        if cache.len() < MAX_CACHED {
            cache.insert(gvk, resource.clone());
        }
        Ok(resource)
    }

    /// The kind with a scale in the most stable version of its group that has one.
    async fn other_version(&self, gvk: &GroupVersionKind) -> Option<ApiResource> {
        let group = kube::discovery::group(&self.client, &gvk.group).await.ok()?;
        // Ordered by stability.
        let mut resources = group.versions().flat_map(|version| group.versioned_resources(version));
        let found = resources.find(|(resource, caps)| resource.kind == gvk.kind && is_scalable(caps));
        found.map(|(resource, _)| resource)
    }
}

fn is_scalable(capabilities: &ApiCapabilities) -> bool {
    capabilities.subresources.iter().any(|(subresource, _)| subresource.plural == SCALE)
}

fn built_in(gvk: &GroupVersionKind) -> Option<ApiResource> {
    Some(match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apps", "Deployment") => ApiResource::erase::<Deployment>(&()),
        ("apps", "StatefulSet") => ApiResource::erase::<StatefulSet>(&()),
        ("apps", "ReplicaSet") => ApiResource::erase::<ReplicaSet>(&()),
        _ => return None,
    })
}

fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_apps_need_no_discovery_in_any_version() {
        let built_in = |api_version, kind| {
            built_in(&gvk(api_version, kind)).map(|it| format!("{}/{}", it.api_version, it.plural))
        };
        assert_eq!(built_in("apps/v1", "ReplicaSet").as_deref(), Some("apps/v1/replicasets"));
        assert_eq!(built_in("apps/v1beta1", "Deployment").as_deref(), Some("apps/v1/deployments"));
        assert_eq!(built_in("example.com/v1", "Deployment"), None);
        assert_eq!(gvk("v1", "ReplicationController").group, "");
    }
}
