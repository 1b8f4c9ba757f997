//! Paths and queries of requests.

use std::fmt;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// `/api/v1/secrets`: the collection without its namespace, which is the same for all
    /// namespaces.
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    /// The object's name; `None` for a collection.
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Scale,
    Status,
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The parameters of a query that this API supports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    pub(crate) dry_run: bool,
    /// The watch begins after this change.
    pub(crate) since: usize,
    /// The name in a field selector.
    pub(crate) name: Option<String>,
    /// Objects on one page of a list, 0 for all, and objects on the pages before.
    pub(crate) limit: usize,
    pub(crate) skip: usize,
    /// The labels in a label selector.
    pub(crate) labels: Vec<(String, String)>,
    /// The labels that objects must not have.
    pub(crate) other_labels: Vec<(String, String)>,
    /// The writer's name in `managedFields`.
    pub(crate) field_manager: String,
    /// Whether server-side apply takes annotations of other managers.
    pub(crate) force: bool,
}

// === impl Path ===

impl Path {
    pub(crate) fn of(path: &str) -> Self {
        let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        // api/v1 or apis/group/version
        let root = if segments.first() == Some(&"api") { 2 } else { 3 };
        let within = segments.len().saturating_sub(root);
        let namespaced = segments.get(root) == Some(&"namespaces") && within >= 3;
        let namespace =
            namespaced.then(|| segments.drain(root..root + 2).nth(1).map(str::to_owned)).flatten();
        let [name, subresource] = [root + 1, root + 2].map(|at| segments.get(at).copied());
        let subresource = match subresource {
            Some("scale") => Some(Subresource::Scale),
            Some("status") => Some(Subresource::Status),
            _ => None,
        };
        let name = name.map(str::to_owned);
        segments.truncate(root + 1);
        Self { resource: format!("/{}", segments.join("/")), namespace, name, subresource }
    }

    /// `/apis/example.com/v1`
    pub(crate) fn is_group_version(&self) -> bool {
        self.resource.starts_with("/apis/") && self.resource.split('/').count() == 4
    }

    pub(crate) fn is_collection(&self) -> bool {
        self.name.is_none()
    }

    /// Whether an object is in this collection, of one namespace or of all.
    pub(crate) fn holds(&self, id: &Id) -> bool {
        self.resource == id.resource
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == id.namespace)
    }

    /// The identity of the object with this name.
    pub(crate) fn id_of(&self, name: &str) -> Id {
        Id {
            resource: self.resource.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name } = self;
        match (namespace.is_empty(), resource.rsplit_once('/')) {
            (false, Some((group, plural))) => write!(f, "{group}/namespaces/{namespace}/{plural}/{name}"),
            _ => write!(f, "{resource}/{name}"),
        }
    }
}

// === impl Query ===

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/").replace("%21", "!");
            match key {
                "watch" => parsed.watch = value == "true",
                "dryRun" => parsed.dry_run = value == "All",
                "resourceVersion" => parsed.since = value.parse().unwrap_or_default(),
                "fieldSelector" => parsed.name = value.strip_prefix("metadata.name=").map(str::to_owned),
                "labelSelector" => {
                    let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
                    for (key, value) in pairs {
                        match key.strip_suffix('!') {
                            Some(key) => parsed.other_labels.push((key.to_owned(), value.to_owned())),
                            None => parsed.labels.push((key.to_owned(), value.to_owned())),
                        }
                    }
                }
                "limit" => parsed.limit = value.parse().unwrap_or_default(),
                "continue" => parsed.skip = value.parse().unwrap_or_default(),
                "force" => parsed.force = value == "true",
                "fieldManager" => parsed.field_manager = value,
                _ => {}
            }
        }
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_paths_of_objects_and_collections() {
        for (path, resource, namespace, name) in [
            ("/api/v1/secrets", "/api/v1/secrets", None, None),
            ("/api/v1/namespaces/shop/secrets", "/api/v1/secrets", Some("shop"), None),
            ("/api/v1/namespaces/shop/secrets/a", "/api/v1/secrets", Some("shop"), Some("a")),
            ("/api/v1/namespaces/shop", "/api/v1/namespaces", None, Some("shop")),
            ("/apis/a.b/v1/apiservices", "/apis/a.b/v1/apiservices", None, None),
            ("/apis/a.b/v1/apiservices/x", "/apis/a.b/v1/apiservices", None, Some("x")),
        ] {
            let parsed = Path::of(path);
            assert_eq!(parsed.resource, resource, "{path}");
            assert_eq!((parsed.namespace.as_deref(), parsed.name.as_deref()), (namespace, name), "{path}");
            if let Some(name) = name {
                assert_eq!(parsed.id_of(name).to_string(), path);
            }
        }
        let scale = Path::of("/apis/apps/v1/namespaces/shop/deployments/web/scale");
        assert_eq!((scale.name.as_deref(), scale.subresource), (Some("web"), Some(Subresource::Scale)));
    }
}
