//! Patches: merge patch, and server-side apply without schemas.

use serde_json::{Value, json};

/// A merge patch (RFC 7396).
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, change) in changes {
        match (change, object.as_object_mut()) {
            (Value::Null, Some(fields)) => drop(fields.remove(key)),
            (change, Some(fields)) => merge(fields.entry(key.clone()).or_insert(Value::Null), change),
            (_, None) => {}
        }
    }
}

/// The part of an applied object that is written: its status alone, or all but its status. Null
/// fields are left out.
pub(crate) fn owned_part(mut patch: Value, status: bool) -> Value {
    without_nulls(&mut patch);
    if let Some(fields) = patch.as_object_mut() {
        fields.retain(|field, _| (field == "status") == status);
    }
    patch
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Removes the fields that were applied `before` and are not applied now.
pub(crate) fn prune(object: &mut Value, before: &Value, now: &Value) {
    let (Some(fields), Some(before)) = (object.as_object_mut(), before.as_object()) else { return };
    for (key, value) in before {
        match (now.get(key), fields.get_mut(key)) {
            (None, _) => drop(fields.remove(key)),
            (Some(now), Some(field)) => prune(field, value, now),
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apply_removes_own_former_fields_and_keeps_those_of_others() {
        let mut object = json!({"a": 1, "b": {"c": 2, "d": 3}, "status": {"s": 1}});
        let before = json!({"a": 1, "b": {"c": 2}});
        let now = owned_part(json!({"b": {"c": 5}, "n": null, "status": {"t": 1}}), false);
        prune(&mut object, &before, &now);
        merge(&mut object, &now);
        assert_eq!(object, json!({"b": {"c": 5, "d": 3}, "status": {"s": 1}}));
    }
}
