//! Change: one object to apply, and when.

use serde::Serialize;
use serde_json::Value;

/// When a change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Step {
    /// First: the pods get the sidecar, and serve as before.
    Pods,
    /// When the rollout is over.
    Traffic,
}

/// One object to apply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub(super) step: Step,
    /// What changes, as a sentence.
    pub(super) summary: String,
    /// The change as a patch; none for a new object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
    /// The whole object.
    pub(super) object: Value,
    /// The object before; none for a new object.
    #[serde(skip)]
    pub(super) before: Option<Value>,
}
