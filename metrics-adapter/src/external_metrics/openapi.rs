//! OpenAPI: what kube-apiserver adds to its own description of all APIs, once a minute from `/openapi/v3` and `/openapi/v2`.
//!
//! Nothing needs it but `kubectl explain` and people; without it kube-apiserver only warns that a description is missing. So it is small: each
//! metric's path, and what is answered there. Of version 3 each group has a document of its own, whose address changes with
//! its content; version 2 is one document.

use serde_json::{Map, Value, json};

use super::discovery::{self, Group};
use super::{Answer, json as answer_json};
use http::StatusCode;

/// Where the documents of version 3 are.
const V3: &str = "/openapi/v3";

/// `/openapi/v3`
pub(super) fn index(served: &[Group]) -> Answer {
    let path = |group: &Group| {
        let (name, version) = (group.name(), group.version());
        let hash = discovery::hash(&document(*group).to_string());
        let url = format!("{V3}/apis/{name}/{version}?hash={hash}");
        (format!("apis/{name}/{version}"), json!({"serverRelativeURL": url}))
    };
    answer_json(StatusCode::OK, &json!({"paths": served.iter().map(path).collect::<Map<_, _>>()}))
}

/// `/openapi/v3/apis/<group>/<version>`
pub(super) fn document(group: Group) -> Value {
    let response = json!({
        "description": "OK",
        "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{}", schema_name(group))}}},
    });
    let string = json!({"type": "string"});
    let parameter = |name: &str, place: &str| json!({"name": name, "in": place, "required": place == "path", "schema": string});
    let schemas: Map<_, _> = [(schema_name(group), schema(group))].into_iter().collect();
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths(group, &response, parameter),
        "components": {"schemas": schemas},
    })
}

/// `/openapi/v2`
pub(super) fn version_2(served: &[Group]) -> Value {
    let parameter = |name: &str, place: &str| json!({"name": name, "in": place, "required": place == "path", "type": "string"});
    let of_group = |group: &Group| {
        let schema = json!({"$ref": format!("#/definitions/{}", schema_name(*group))});
        paths(*group, &json!({"description": "OK", "schema": schema}), parameter)
    };
    let definitions: Map<_, _> = served.iter().map(|group| (schema_name(*group), schema(*group))).collect();
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": served.iter().flat_map(of_group).collect::<Map<_, _>>(),
        "definitions": definitions,
    })
}

fn info() -> Value {
    json!({"title": "Rouse", "version": env!("CARGO_PKG_VERSION")})
}

fn paths(group: Group, response: &Value, parameter: impl Fn(&str, &str) -> Value) -> Map<String, Value> {
    let path = |resource: String| {
        // Of objects, the name stands between the resource and the metric.
        let (path, mut parameters) = match resource.split_once('/') {
            Some((object, metric)) => {
                (format!("{object}/{{name}}/{metric}"), vec![parameter("name", "path")])
            }
            None => (resource.clone(), vec![parameter("labelSelector", "query")]),
        };
        parameters.push(parameter("namespace", "path"));
        let get = json!({
            "description": format!("read the metric {resource}"),
            "operationId": format!("get-{}-{}", group.name(), resource.replace('/', "-")),
            "parameters": parameters,
            "responses": {"200": response},
            "x-kubernetes-group-version-kind": kind(group),
        });
        let root = format!("/apis/{}/{}", group.name(), group.version());
        (format!("{root}/namespaces/{{namespace}}/{path}"), json!({"get": get}))
    };
    group.resources().into_iter().map(path).collect()
}

fn schema_name(group: Group) -> String {
    format!("dev.rouse.{}.{}", group.version(), group.kind())
}

fn schema(group: Group) -> Value {
    let string = || json!({"type": "string"});
    json!({
        "description": "One value of a metric, as the only item of a list.",
        "type": "object",
        "properties": {
            "apiVersion": string(),
            "kind": string(),
            "metadata": {"type": "object"},
            "items": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "timestamp": string(),
                    "value": {"type": "string", "description": "The workload's total, as a quantity."},
                },
            }},
        },
        "x-kubernetes-group-version-kind": [kind(group)],
    })
}

fn kind(group: Group) -> Value {
    json!({"group": group.name(), "version": group.version(), "kind": group.kind()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_every_group_is_described_at_its_path_and_all_references_lead_somewhere() {
        let document = document(Group::Object);
        let paths = document["paths"].as_object().unwrap();
        let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/services/{name}/concurrency";
        assert_eq!(paths.len(), 6);
        assert_eq!(paths[path]["get"]["parameters"].as_array().unwrap().len(), 2);
        let both = version_2(&[Group::External, Group::Object]);
        assert_eq!(both["paths"].as_object().unwrap().len(), 9);
        for document in [document, both] {
            let text = document.to_string();
            for reference in text.split("\"$ref\":\"#").skip(1) {
                let pointer = reference.split('"').next().unwrap();
                assert!(document.pointer(pointer).is_some(), "{pointer}");
            }
        }
    }
}
