//! OpenAPI: the documents that kube-apiserver merges into its own, once a minute, from
//! `/openapi/v3` and `/openapi/v2`.
//!
//! Only `kubectl explain` and readers of the API use them; without them kube-apiserver logs a
//! warning. So they are small: the path and the response of each metric. In version 3 each group
//! has a document of its own, with a hash of its content in the URL; version 2 is one document.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::external_metrics::discovery::{self, ApiGroup};
use crate::external_metrics::response::{self, ApiResponse};

/// Path of the version 3 documents.
const V3: &str = "/openapi/v3";

/// `/openapi/v3`
pub(in crate::external_metrics) fn index(served: &[ApiGroup]) -> ApiResponse {
    let path = |group: &ApiGroup| {
        let (name, version) = (group.name(), group.version());
        let hash = discovery::hash(&document(*group).to_string());
        let url = format!("{V3}/apis/{name}/{version}?hash={hash}");
        (format!("apis/{name}/{version}"), json!({"serverRelativeURL": url}))
    };
    response::json(StatusCode::OK, &json!({"paths": served.iter().map(path).collect::<Map<_, _>>()}))
}

/// `/openapi/v3/apis/<group>/<version>`
pub(in crate::external_metrics) fn document(group: ApiGroup) -> Value {
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
pub(in crate::external_metrics) fn version_2(served: &[ApiGroup]) -> Value {
    let parameter = |name: &str, place: &str| json!({"name": name, "in": place, "required": place == "path", "type": "string"});
    let of_group = |group: &ApiGroup| {
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

fn paths(group: ApiGroup, response: &Value, parameter: impl Fn(&str, &str) -> Value) -> Map<String, Value> {
    let path = |resource: String| {
        // Metrics of objects have the object's name between the resource and the metric.
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

fn schema_name(group: ApiGroup) -> String {
    format!("dev.rouse.{}.{}", group.version(), group.kind())
}

fn schema(group: ApiGroup) -> Value {
    let string = || json!({"type": "string"});
    json!({
        "description": "The value of one metric, as the only item of a list.",
        "type": "object",
        "properties": {
            "apiVersion": string(),
            "kind": string(),
            "metadata": {"type": "object"},
            "items": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "timestamp": string(),
                    "value": {"type": "string", "description": "The total of the workload, as a quantity."},
                },
            }},
        },
        "x-kubernetes-group-version-kind": [kind(group)],
    })
}

fn kind(group: ApiGroup) -> Value {
    json!({"group": group.name(), "version": group.version(), "kind": group.kind()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_every_metric_at_its_path_and_resolves_all_references() {
        let document = document(ApiGroup::Object);
        let paths = document["paths"].as_object().unwrap();
        let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/services/{name}/concurrency";
        assert_eq!(paths.len(), 6);
        assert_eq!(paths[path]["get"]["parameters"].as_array().unwrap().len(), 2);
        let both = version_2(&[ApiGroup::External, ApiGroup::Object]);
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
