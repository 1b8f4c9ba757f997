//! Lists of objects, of kinds that a cluster may not have and that the user may not read.

use std::collections::BTreeSet;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Resource};

use crate::check::fetched::Fetched;
use crate::connection::Session;
use crate::workloads::list_all;

/// API groups that the cluster serves; `None` if they could not be read. A user without rights on a
/// group gets 403 for it, also where it does not exist.
pub(in crate::check) struct ApiGroups(Option<BTreeSet<String>>);

// === impl ApiGroups ===

impl ApiGroups {
    pub(in crate::check) async fn read(session: &Session) -> Self {
        let groups = session.client.list_api_groups().await.ok();
        Self(groups.map(|list| list.groups.into_iter().map(|group| group.name).collect()))
    }

    pub(super) fn may_have(&self, group: &str) -> bool {
        self.0.as_ref().is_none_or(|groups| groups.contains(group))
    }
}

/// Objects of a kind that the cluster may not have.
pub(super) async fn dynamic(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
    kind: &GroupVersionKind,
    plural: &str,
    unchecked: &mut Vec<String>,
) -> Vec<DynamicObject> {
    if !groups.may_have(&kind.group) {
        return Vec::new();
    }
    objects(session, Some(namespace), kind, plural, unchecked).await.unwrap_or_default()
}

/// Objects of a namespace, or of all; `None` if they could not be read.
pub(super) async fn objects(
    session: &Session,
    namespace: Option<&str>,
    kind: &GroupVersionKind,
    plural: &str,
    unchecked: &mut Vec<String>,
) -> Option<Vec<DynamicObject>> {
    let (client, resource) = (session.client.clone(), ApiResource::from_gvk_with_plural(kind, plural));
    let (api, place): (Api<DynamicObject>, String) = match namespace {
        Some(namespace) => (Api::namespaced_with(client, namespace, &resource), format!("in {namespace}")),
        None => (Api::all_with(client, &resource), "of all namespaces".to_owned()),
    };
    known(list_all(&api).await, &format!("{}s {place}", kind.kind), unchecked)
}

pub(super) async fn list<K>(session: &Session, namespace: &str) -> Result<Vec<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    list_all(&Api::namespaced(session.client.clone(), namespace)).await
}

pub(super) fn known<K>(
    result: Result<Vec<K>, kube::Error>,
    what: &str,
    unchecked: &mut Vec<String>,
) -> Option<Vec<K>> {
    let fetched = Fetched::from(result);
    unchecked.extend(fetched.unreadable(what));
    match fetched {
        Fetched::Found(objects) => Some(objects),
        Fetched::NotFound => Some(Vec::new()),
        Fetched::Unreadable(_) => None,
    }
}

pub(super) fn keep<K>(
    result: Result<Vec<K>, kube::Error>,
    what: &str,
    unchecked: &mut Vec<String>,
) -> Vec<K> {
    known(result, what, unchecked).unwrap_or_default()
}
