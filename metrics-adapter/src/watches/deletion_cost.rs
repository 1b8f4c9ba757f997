//! DeletionCost: which writer, if any, set the deletion cost of a pod.
//!
//! Of its ready pods, a ReplicaSet deletes those with the lowest cost first. No other controller
//! reads it. Whether a cost is ours is in the managed fields: we apply it with a manager of its
//! own, so neither a user's cost nor that of a pod template is taken for ours, after a restart or a
//! change of leader either.

use kube::api::ObjectMeta;

/// The annotation of Kubernetes.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Our field manager.
pub const FIELD_MANAGER: &str = "rouse-deletion-cost";
/// The cost that we apply. Without the annotation a pod has a cost of 0.
pub const COST: &str = "1";

/// The deletion cost of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionCost {
    /// None: we may set one.
    Unset,
    /// We set it.
    Ours,
    /// It is not ours to set: it has a value of another writer, or no ReplicaSet reads it.
    Foreign,
}

// === impl DeletionCost ===

impl DeletionCost {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let mut owners = metadata.owner_references.iter().flatten();
        let mut managers = metadata.managed_fields.iter().flatten();
        let is_of_replica_set =
            owners.any(|owner| owner.controller == Some(true) && owner.kind == "ReplicaSet");
        let is_ours = managers.any(|fields| fields.manager.as_deref() == Some(FIELD_MANAGER));
        let cost = metadata.annotations.as_ref().and_then(|annotations| annotations.get(POD_DELETION_COST));
        match cost {
            Some(cost) if is_ours && cost == COST => Self::Ours,
            None if is_of_replica_set => Self::Unset,
            _ => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn cost_is_ours_only_by_the_field_manager() {
        let cost = |owner: &str, manager: &str, cost: Value| {
            let metadata = json!({
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "1", "controller": true},
                ],
                "managedFields": [{"manager": manager, "operation": "Apply"}],
                "annotations": {POD_DELETION_COST: cost, "a": "b"},
            });
            DeletionCost::of(&serde_json::from_value(without_nulls(metadata)).unwrap())
        };
        assert_eq!(cost("ReplicaSet", "kubelet", json!(null)), DeletionCost::Unset);
        assert_eq!(cost("StatefulSet", "kubelet", json!(null)), DeletionCost::Foreign);
        assert_eq!(cost("ReplicaSet", "kubectl", json!("1")), DeletionCost::Foreign);
        assert_eq!(cost("ReplicaSet", FIELD_MANAGER, json!("1")), DeletionCost::Ours);
        assert_eq!(cost("ReplicaSet", FIELD_MANAGER, json!("7")), DeletionCost::Foreign, "overwritten");
        assert_eq!(DeletionCost::of(&ObjectMeta::default()), DeletionCost::Foreign, "of no controller");
    }

    fn without_nulls(mut metadata: Value) -> Value {
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        annotations.into_iter().for_each(|annotations| annotations.retain(|_, value| !value.is_null()));
        metadata
    }
}
