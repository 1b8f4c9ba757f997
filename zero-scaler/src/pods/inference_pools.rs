//! Reads the InferencePools of a namespace, of which most clusters have no kind.

use autoscaler::findings::inference_pool::{GROUPS, InferencePool, KIND};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};

/// Bounds an answer. A namespace has few pools; one with more is refused, not read in part.
const MAX_POOLS: u32 = 500;

/// Why the pools of a namespace are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoolsError {
    #[error("the InferencePools of the namespace cannot be read: {0}")]
    Unreadable(#[from] kube::Error),
    #[error("the namespace has more than {MAX_POOLS} InferencePools")]
    TooMany,
}

/// The pools of both groups that may have them. Without the right to read them there are none: a
/// role of an earlier version must not keep every workload above zero.
pub(crate) async fn inference_pools(
    client: &Client,
    namespace: &str,
) -> Result<Vec<InferencePool>, PoolsError> {
    let mut pools = Vec::new();
    for (group, version) in GROUPS {
        let kind = GroupVersionKind::gvk(group, version, KIND);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        match api.list(&ListParams::default().limit(MAX_POOLS)).await {
            Ok(list) if list.metadata.continue_.as_ref().is_some_and(|it| !it.is_empty()) => {
                return Err(PoolsError::TooMany);
            }
            Ok(list) => pools.extend(list.items.iter().map(|it| InferencePool::new(it.name_any(), &it.data))),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pools)
}

fn is_absent(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    if status.code == 403 {
        tracing::warn!(error = %status.message, "InferencePools not read, ignored");
    }
    matches!(status.code, 403 | 404)
}
