//! Identifier of a workload: the namespace and name of its PodAutoscaler.
//!
//! The HPA, PodAutoscaler, Metric and ServerlessService of a workload share this key, so that no
//! mapping between their names is needed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Namespace and name of a workload's PodAutoscaler (and Metric, and ServerlessService).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The Kubernetes namespace.
    pub namespace: String,
    /// The object's name in that namespace.
    pub name: String,
}

/// Error for a text that is not `namespace/name`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not namespace/name")]
pub struct ParseKeyError(String);

// === impl Key ===

impl Key {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::new(namespace, name))
            }
            _ => Err(ParseKeyError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_rejects_other_shapes() {
        let key: Key = "shop/web".parse().unwrap();
        assert_eq!(key, Key::new("shop", "web"));
        assert_eq!(key.to_string(), "shop/web");
        for bad in ["", "web", "/web", "shop/", "a/b/c"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }
}
