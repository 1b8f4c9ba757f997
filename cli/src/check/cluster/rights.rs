//! Rules of roles: whether one grants what another does.

use serde_json::Value;

/// The first right of the rules `expected` that the rules `found` do not grant, such as `watch on
/// pods`.
pub(super) fn lacking(expected: &Value, found: &Value) -> Option<String> {
    rules(expected).find_map(|rule| {
        let names: Vec<&str> = texts(rule, "resourceNames").collect();
        texts(rule, "apiGroups").find_map(|group| {
            texts(rule, "resources").find_map(|resource| {
                let mut verbs = texts(rule, "verbs");
                let verb =
                    verbs.find(|verb| !rules(found).any(|it| grants(it, group, resource, &names, verb)))?;
                Some(format!("{verb} on {resource}"))
            })
        })
    })
}

fn rules(role: &Value) -> impl Iterator<Item = &Value> {
    role.get("rules").and_then(Value::as_array).into_iter().flatten()
}

fn texts<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// A rule without names is for all names.
fn grants(rule: &Value, group: &str, resource: &str, names: &[&str], verb: &str) -> bool {
    let has = |field: &str, text: &str| texts(rule, field).any(|it| it == text || it == "*");
    let mut given = texts(rule, "resourceNames").peekable();
    let is_for_all = given.peek().is_none();
    let given: Vec<&str> = given.collect();
    has("apiGroups", group)
        && has("resources", resource)
        && has("verbs", verb)
        && (is_for_all || !names.is_empty() && names.iter().all(|name| given.contains(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_the_first_right_that_is_not_granted() {
        let rule = |resources: Value, verbs: Value| json!({"apiGroups": [""], "resources": resources, "verbs": verbs});
        let expected = json!({"rules": [rule(json!(["pods", "services"]), json!(["get", "watch"]))]});
        assert_eq!(lacking(&expected, &expected), None);
        let all = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
        assert_eq!(lacking(&expected, &all), None);
        let less = json!({"rules": [rule(json!(["pods"]), json!(["get", "watch"])), rule(json!(["services"]), json!(["get"]))]});
        assert_eq!(lacking(&expected, &less).as_deref(), Some("watch on services"));
        let named = json!({"rules": [{"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "watch"], "resourceNames": ["a"]}]});
        assert_eq!(lacking(&expected, &named).as_deref(), Some("get on pods"));
        assert_eq!(lacking(&named, &expected), None);
    }
}
