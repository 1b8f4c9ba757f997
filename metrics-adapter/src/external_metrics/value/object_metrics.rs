//! Object metrics: the same values as metrics of a Service or a PodAutoscaler, in
//! `custom.metrics.k8s.io/v1beta2`.
//!
//! For clusters where another server owns external.metrics.k8s.io. Off by default, because this
//! group can have only one server in a cluster, too. An HPA computes the same size from a metric of
//! type Object.

use serde::Serialize;

use crate::external_metrics::error::ApiError;
use crate::external_metrics::value::{MetricSample, MetricValues};

/// API group.
pub(in crate::external_metrics) const GROUP: &str = "custom.metrics.k8s.io";
pub(in crate::external_metrics) const VERSION: &str = "v1beta2";
/// Kind of its responses.
pub(in crate::external_metrics) const KIND: &str = "MetricValueList";

/// A kind of object that has metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::external_metrics) enum DescribedResource {
    /// The Service of a workload.
    Service,
    /// The workload.
    PodAutoscaler,
}

/// Response to a query for a metric.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::external_metrics) struct MetricValueList {
    kind: &'static str,
    api_version: String,
    metadata: serde_json::Map<String, serde_json::Value>,
    items: [MetricValue; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    described_object: DescribedObject,
    metric: Metric,
    timestamp: String,
    window_seconds: u64,
    value: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DescribedObject {
    kind: &'static str,
    namespace: String,
    name: String,
    api_version: String,
}

#[derive(Debug, Serialize)]
struct Metric {
    name: String,
    /// Always null: metrics have no labels.
    selector: Option<()>,
}

// === impl DescribedResource ===

impl DescribedResource {
    /// All kinds.
    pub(in crate::external_metrics) const ALL: [Self; 2] = [Self::Service, Self::PodAutoscaler];

    /// The resource in request paths and access reviews.
    pub(in crate::external_metrics) fn resource(self) -> &'static str {
        match self {
            Self::Service => "services",
            Self::PodAutoscaler => "podautoscalers.autoscaling.rouse.dev",
        }
    }

    pub(in crate::external_metrics) fn parse(resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|described| described.resource() == resource)
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::PodAutoscaler => "PodAutoscaler",
        }
    }

    fn api_version(self) -> String {
        match self {
            Self::Service => "/v1".to_owned(),
            Self::PodAutoscaler => {
                format!("{}/{}", autoscaler::contract::GROUP, autoscaler::contract::VERSION)
            }
        }
    }
}

// === impl MetricValueList ===

impl MetricValueList {
    /// One metric of one object.
    pub(in crate::external_metrics) fn new(
        values: &MetricValues,
        namespace: &str,
        described: DescribedResource,
        name: &str,
        metric: &str,
    ) -> Result<Self, ApiError> {
        let MetricSample { timestamp, window, value } = match described {
            DescribedResource::Service => values.of_service(namespace, metric, name)?,
            DescribedResource::PodAutoscaler => values.of_workload(namespace, metric, name)?,
        };
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let (kind, api_version) = (described.kind(), described.api_version());
        Ok(Self {
            kind: KIND,
            api_version: format!("{GROUP}/{VERSION}"),
            metadata: serde_json::Map::new(),
            items: [MetricValue {
                described_object: DescribedObject { kind, namespace, name, api_version },
                metric: Metric { name: metric.to_owned(), selector: None },
                timestamp,
                window_seconds: window,
                value,
            }],
        })
    }
}
