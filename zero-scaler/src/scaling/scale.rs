//! The size of a scale target, as `/scale` or the object itself has it.

/// A target's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// `spec.replicas`.
    pub replicas: i32,
    /// Its pods, as a label selector's text; empty when the target does not say.
    pub selector: String,
    /// The version that was read.
    pub resource_version: String,
    /// Who wrote `spec.replicas`.
    pub writer: Writer,
}

/// Who wrote `spec.replicas` last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The zero-scaler.
    Us,
    /// Somebody else.
    Other,
    /// The object does not say.
    Unknown,
}
