//! Where an object is: the collection, and its name there.

/// A path of the API, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// `/api/v1/namespaces/shop/secrets`
    pub(crate) collection: String,
    /// The object's name, if the path is an object's.
    pub(crate) name: Option<String>,
}

/// What of a query matters here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    /// From which change on to watch.
    pub(crate) since: usize,
    /// The one name that a field selector asks for.
    pub(crate) name: Option<String>,
}

// === impl Path ===

impl Path {
    pub(crate) fn of(path: &str) -> Self {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        // api/v1 or apis/group/version
        let root = if segments.first() == Some(&"api") { 2 } else { 3 };
        let within = segments.len().saturating_sub(root);
        let namespaced = segments.get(root) == Some(&"namespaces") && within >= 3;
        let names_one = if namespaced { within >= 4 } else { within >= 2 };
        match segments.split_last() {
            Some((name, collection)) if names_one => {
                Self { collection: format!("/{}", collection.join("/")), name: Some((*name).to_owned()) }
            }
            _ => Self { collection: format!("/{}", segments.join("/")), name: None },
        }
    }

    pub(crate) fn is_collection(&self) -> bool {
        self.name.is_none()
    }
}

// === impl Query ===

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "watch" => parsed.watch = value == "true",
                "resourceVersion" => parsed.since = value.parse().unwrap_or_default(),
                "fieldSelector" => {
                    let value = value.replace("%3D", "=");
                    parsed.name = value.strip_prefix("metadata.name=").map(str::to_owned);
                }
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
    fn objects_are_told_from_collections() {
        for (path, collection, name) in [
            ("/api/v1/namespaces/shop/secrets", "/api/v1/namespaces/shop/secrets", None),
            ("/api/v1/namespaces/shop/secrets/a", "/api/v1/namespaces/shop/secrets", Some("a")),
            ("/api/v1/namespaces/shop", "/api/v1/namespaces", Some("shop")),
            ("/apis/a.b/v1/apiservices", "/apis/a.b/v1/apiservices", None),
            ("/apis/a.b/v1/apiservices/x", "/apis/a.b/v1/apiservices", Some("x")),
        ] {
            let expected = Path { collection: collection.to_owned(), name: name.map(str::to_owned) };
            assert_eq!(Path::of(path), expected, "{path}");
        }
    }
}
