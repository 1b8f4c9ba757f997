//! The difference of two objects: as a JSON merge patch (RFC 7396), and as lines to read.

use std::io::{self, Write};

use serde_json::{Map, Value};

/// The merge patch from one object to another; `None` if they are the same. A field with null is
/// absent.
pub(super) fn difference(from: &Value, to: &Value) -> Option<Value> {
    let (Some(before), Some(after)) = (from.as_object(), to.as_object()) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for field in before.keys().chain(after.keys().filter(|field| !before.contains_key(*field))) {
        let null = Value::Null;
        let (old, new) = (before.get(field).unwrap_or(&null), after.get(field).unwrap_or(&null));
        patch.extend(difference(old, new).map(|change| (field.clone(), change)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The fields that differ, before (`-`) and after (`+`).
pub(super) fn write_difference(from: &Value, to: &Value, out: &mut dyn Write) -> io::Result<()> {
    write_at("", from, to, out)
}

fn write_at(path: &str, from: &Value, to: &Value, out: &mut dyn Write) -> io::Result<()> {
    if let (Some(before), Some(after)) = (from.as_object(), to.as_object()) {
        for field in before.keys().chain(after.keys().filter(|field| !before.contains_key(*field))) {
            let null = Value::Null;
            let (old, new) = (before.get(field).unwrap_or(&null), after.get(field).unwrap_or(&null));
            let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
            write_at(&path, old, new, out)?;
        }
        return Ok(());
    }
    if from == to {
        return Ok(());
    }
    let shown = |value: &Value| (!value.is_null()).then(|| value.to_string());
    for (sign, value) in [("-", shown(from)), ("+", shown(to))] {
        if let Some(value) = value {
            let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
            writeln!(out, "  {sign} {place}{value}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patch_leads_there_and_its_reverse_back() {
        let before = json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        let after = json!({"spec": {"selector": null, "ports": [{"port": 80}], "type": "ClusterIP"}});
        let there = difference(&before, &after);
        assert_eq!(there, Some(json!({"spec": {"selector": null, "type": "ClusterIP"}})));
        let back = difference(&after, &before);
        assert_eq!(back, Some(json!({"spec": {"selector": {"app": "web"}, "type": null}})));
        assert_eq!(difference(&before, &before), None);
    }
}
