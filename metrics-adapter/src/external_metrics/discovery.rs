//! Discovery: the served groups and metrics, in the aggregated form and in the older one.
//!
//! The aggregation layer requests `/apis` in the aggregated form once a minute and on every change.
//! The older form is the fallback, and the target of the availability check. The only verb is
//! `get`, so that namespace deletion and garbage collection ignore these resources.

pub(super) mod openapi;

use std::hash::{DefaultHasher, Hasher};

use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::external_metrics::response::{ApiResponse, response, with_vary};
use crate::external_metrics::value::object_metrics::{self, DescribedResource};
use crate::external_metrics::value::{GROUP, KIND, VERSION};

/// All metrics served.
pub(super) const METRICS: [&str; 3] = [METRIC_CONCURRENCY, METRIC_RPS, METRIC_DESIRED];

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether the client accepts the aggregated form.
pub(super) fn wants_aggregated(headers: &HeaderMap) -> bool {
    let wanted = |range: &str| {
        let parameter = |wanted: &str| range.split(';').any(|part| part.trim() == wanted);
        parameter("g=apidiscovery.k8s.io") && parameter("v=v2") && parameter("as=APIGroupDiscoveryList")
    };
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(wanted)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiGroup {
    /// external.metrics.k8s.io: metrics selected by the name of a Service.
    External,
    /// custom.metrics.k8s.io: metrics of objects.
    Object,
}

// === impl ApiGroup ===

impl ApiGroup {
    /// All groups.
    pub(super) const ALL: [Self; 2] = [Self::External, Self::Object];

    pub(super) fn served(custom: bool) -> &'static [Self] {
        if custom { &Self::ALL } else { &[Self::External] }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::External => GROUP,
            Self::Object => object_metrics::GROUP,
        }
    }

    pub(super) fn version(self) -> &'static str {
        match self {
            Self::External => VERSION,
            Self::Object => object_metrics::VERSION,
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::External => KIND,
            Self::Object => object_metrics::KIND,
        }
    }

    /// Resource names: `concurrency`, or `services/concurrency` for metrics of objects.
    pub(super) fn resources(self) -> Vec<String> {
        match self {
            Self::External => METRICS.map(str::to_owned).into(),
            Self::Object => DescribedResource::ALL
                .iter()
                .flat_map(|described| METRICS.map(|metric| format!("{}/{metric}", described.resource())))
                .collect(),
        }
    }

    fn aggregated(self) -> Value {
        let (version, kind) = (self.version(), self.kind());
        let resource = |name: String| {
            json!({
                "resource": name,
                "responseKind": {"group": "", "version": "", "kind": kind},
                "scope": "Namespaced",
                "singularResource": "",
                "verbs": ["get"],
            })
        };
        let resources: Vec<_> = self.resources().into_iter().map(resource).collect();
        json!({
            "metadata": {"name": self.name()},
            "versions": [{"version": version, "freshness": "Current", "resources": resources}],
        })
    }

    fn fields(self) -> Value {
        let (name, version) = (self.name(), self.version());
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    }

    /// `/apis/<group>`
    pub(super) fn group(self) -> Value {
        let mut group = self.fields();
        if let Value::Object(fields) = &mut group {
            fields.insert("kind".to_owned(), "APIGroup".into());
            fields.insert("apiVersion".to_owned(), "v1".into());
        }
        group
    }

    /// `/apis/<group>/<version>`
    pub(super) fn resource_list(self) -> Value {
        let kind = self.kind();
        let resource = |name: String| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]});
        let resources: Vec<_> = self.resources().into_iter().map(resource).collect();
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{}/{}", self.name(), self.version()),
            "resources": resources,
        })
    }
}

/// `/apis` in the aggregated form, or 304 if the client's ETag is current.
pub(super) fn aggregated(served: &[ApiGroup], headers: &HeaderMap) -> ApiResponse {
    let items: Vec<_> = served.iter().map(|group| group.aggregated()).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let body = list.to_string();
    let tag = format!("\"{}\"", hash(&body));
    let tags = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut answer = if tags.flat_map(|value| value.split(',')).any(|other| other.trim() == tag) {
        let mut unchanged = Response::new(Full::new(Bytes::new()));
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        response(StatusCode::OK, HeaderValue::from_static(AGGREGATED), Bytes::from(body))
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    with_vary(answer)
}

/// A hash of a document, for ETags.
pub(super) fn hash(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    format!("{:016x}", hasher.finish())
}

/// `/apis`
pub(super) fn groups(served: &[ApiGroup]) -> Value {
    let groups: Vec<_> = served.iter().map(|group| group.fields()).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}
