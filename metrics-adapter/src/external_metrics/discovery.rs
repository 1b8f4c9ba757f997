//! Discovery: which metrics there are, in the two forms that the aggregation layer and kubectl ask for.
//!
//! `/apis` with the aggregated Accept is asked once a minute and on every change; the rest is its fallback and the
//! availability check. The verbs stop at get, so that namespace deletion and garbage collection pass us by.

use std::hash::{DefaultHasher, Hasher};

use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Answer, GROUP, VERSION, answer, with_vary};

/// All metrics served.
pub(super) const METRICS: [&str; 3] = [METRIC_CONCURRENCY, METRIC_RPS, METRIC_DESIRED];

const KIND: &str = "ExternalMetricValueList";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether a caller takes the aggregated form.
pub(super) fn wants_aggregated(headers: &HeaderMap) -> bool {
    let wanted = |range: &str| {
        let parameter = |wanted: &str| range.split(';').any(|part| part.trim() == wanted);
        parameter("g=apidiscovery.k8s.io") && parameter("v=v2") && parameter("as=APIGroupDiscoveryList")
    };
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(wanted)
}

/// `/apis` in the aggregated form, or 304 if the caller has it already.
pub(super) fn aggregated(headers: &HeaderMap) -> Answer {
    let body = aggregated_list().to_string();
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut response = if known.flat_map(|value| value.split(',')).any(|known| known.trim() == tag) {
        let mut unchanged = Response::new(Full::new(Bytes::new()));
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        answer(StatusCode::OK, HeaderValue::from_static(AGGREGATED), Bytes::from(body))
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    with_vary(response)
}

fn aggregated_list() -> Value {
    let resource = |name: &str| {
        json!({
            "resource": name,
            "responseKind": {"group": "", "version": "", "kind": KIND},
            "scope": "Namespaced",
            "singularResource": "",
            "verbs": ["get"],
        })
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{
            "metadata": {"name": GROUP},
            "versions": [{
                "version": VERSION,
                "freshness": "Current",
                "resources": METRICS.map(resource),
            }],
        }],
    })
}

/// `/apis`
pub(super) fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_fields()]})
}

/// `/apis/external.metrics.k8s.io`
pub(super) fn group() -> Value {
    let mut group = group_fields();
    if let Value::Object(fields) = &mut group {
        fields.insert("kind".to_owned(), "APIGroup".into());
        fields.insert("apiVersion".to_owned(), "v1".into());
    }
    group
}

fn group_fields() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

/// `/apis/external.metrics.k8s.io/v1beta1`
pub(super) fn resources() -> Value {
    let resource = |name: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": KIND, "verbs": ["get"]});
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": METRICS.map(resource),
    })
}
