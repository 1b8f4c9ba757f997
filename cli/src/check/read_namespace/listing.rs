//! Lister: lists of objects, of kinds that a cluster may not have and that the user may not read.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::check::fetched::Fetched;
use crate::connection::Session;
use crate::workloads::list_all;

/// Lists objects, and collects those that could not be read.
pub(super) struct Lister<'a> {
    pub(super) session: &'a Session,
    /// Lines for the user, with reasons.
    pub(super) unchecked: Vec<String>,
    /// API groups that the cluster serves; `None` if they could not be read. A user without rights
    /// on a group gets 403 for it, also where it does not exist.
    groups: Option<BTreeSet<String>>,
}

// === impl Lister ===

impl<'a> Lister<'a> {
    pub(super) async fn new(session: &'a Session, unchecked: Vec<String>) -> Self {
        let groups = session.client.list_api_groups().await.ok();
        let groups = groups.map(|list| list.groups.into_iter().map(|group| group.name).collect());
        Self { session, unchecked, groups }
    }

    pub(super) fn may_have(&self, group: &str) -> bool {
        self.groups.as_ref().is_none_or(|groups| groups.contains(group))
    }

    /// Objects of a kind that the cluster may not have, of a namespace or of all; `None` if they
    /// could not be read.
    pub(super) async fn dynamic(
        &mut self,
        namespace: Option<&str>,
        kind: &GroupVersionKind,
    ) -> Option<Vec<DynamicObject>> {
        if !self.may_have(&kind.group) {
            return Some(Vec::new());
        }
        let (client, resource) = (self.session.client.clone(), ApiResource::from_gvk(kind));
        let (api, place) = match namespace {
            Some(namespace) => {
                (Api::namespaced_with(client, namespace, &resource), format!("in {namespace}"))
            }
            None => (Api::all_with(client, &resource), "of all namespaces".to_owned()),
        };
        self.known(&api, &format!("{}s {place}", kind.kind)).await
    }

    /// Objects of a namespace; none if they could not be read.
    pub(super) async fn list<K>(&mut self, namespace: &str, kinds: &str) -> Vec<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        self.known_in(namespace, kinds).await.unwrap_or_default()
    }

    /// Objects of a namespace; `None` if they could not be read.
    pub(super) async fn known_in<K>(&mut self, namespace: &str, kinds: &str) -> Option<Vec<K>>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let api = Api::namespaced(self.session.client.clone(), namespace);
        self.known(&api, &format!("{kinds} in {namespace}")).await
    }

    /// The objects behind `api`; `None` if they could not be read.
    pub(super) async fn known<K>(&mut self, api: &Api<K>, what: &str) -> Option<Vec<K>>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let fetched = Fetched::from(list_all(api).await);
        self.unchecked.extend(fetched.unreadable(what));
        match fetched {
            Fetched::Found(objects) => Some(objects),
            Fetched::NotFound => Some(Vec::new()),
            Fetched::Unreadable(_) => None,
        }
    }
}
