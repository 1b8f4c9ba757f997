//! Objects of other autoscalers and rollout controllers, which write the sizes of their targets.

use kube::ResourceExt;
use kube::api::{DynamicObject, GroupVersionKind};
use serde_json::Value;

use crate::check::namespace_objects::OtherScaler;

/// A kind with objects that write the size of a target.
pub(super) struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// JSON pointer to the reference with the target's kind and name. Kind is Deployment by
    /// default.
    reference: &'static str,
}

pub(super) const KINDS: [Kind; 3] = [
    Kind { group: "keda.sh", version: "v1alpha1", kind: "ScaledObject", reference: "/spec/scaleTargetRef" },
    Kind {
        group: "http.keda.sh",
        version: "v1alpha1",
        kind: "HTTPScaledObject",
        reference: "/spec/scaleTargetRef",
    },
    // A Rollout that refers to a Deployment scales it to zero and makes the pods itself.
    Kind { group: "argoproj.io", version: "v1alpha1", kind: "Rollout", reference: "/spec/workloadRef" },
];

// === impl Kind ===

impl Kind {
    pub(super) fn of_group(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(self.group, self.version, self.kind)
    }
}

/// What an object writes the size of; `None` if it names no target.
pub(super) fn scaler(kind: &Kind, namespace: &str, object: &DynamicObject) -> Option<OtherScaler> {
    let reference = object.data.pointer(kind.reference)?;
    let text = |field: &str| reference.get(field).and_then(Value::as_str);
    Some(OtherScaler {
        object: format!("{} {namespace}/{}", kind.kind, object.name_any()),
        target: (text("kind").unwrap_or("Deployment").to_owned(), text("name")?.to_owned()),
    })
}
