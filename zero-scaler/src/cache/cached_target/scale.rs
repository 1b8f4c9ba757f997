//! The replica count of a scale target, from `/scale` or from the object itself.

use std::sync::Arc;

use component_base::kubernetes::ObservedReplicas;

/// A target's replica count and its selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status.selector`; empty if the target has none.
    pub selector: String,
    /// The resource version that was read; empty if unknown.
    pub resource_version: String,
    /// The last writer of `spec.replicas`.
    pub writer: Writer,
}

/// The last writer of `spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The zero-scaler.
    Us,
    /// Another field manager, by its name.
    Other(Arc<str>),
    /// The object has no managed field for it.
    Unknown,
}

// === impl ObservedReplicas ===

impl From<&Scale> for ObservedReplicas {
    fn from(scale: &Scale) -> Self {
        let version = Some(scale.resource_version.clone()).filter(|version| !version.is_empty());
        Self { replicas: scale.replicas, resource_version: version }
    }
}
