//! Object metrics: the same values as metrics of a Service or a PodAutoscaler, in `custom.metrics.k8s.io/v1beta2`.
//!
//! For clusters in which external.metrics.k8s.io is somebody else's; off unless asked for, because this group can have
//! but one owner, too. An HPA of type Object does the same arithmetic with it.

use serde::Serialize;

use super::value::Item;
use super::{ApiError, Values};

/// API group.
pub(super) const GROUP: &str = "custom.metrics.k8s.io";
/// Version.
pub(super) const VERSION: &str = "v1beta2";
/// Kind of an answer.
pub(super) const KIND: &str = "MetricValueList";

/// An object that has metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Described {
    /// The Service that requests come through.
    Service,
    /// The workload.
    PodAutoscaler,
}

/// The answer to a query.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricValueList {
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
    /// There is nothing to select.
    selector: Option<()>,
}

// === impl Described ===

impl Described {
    /// All.
    pub(super) const ALL: [Self; 2] = [Self::Service, Self::PodAutoscaler];

    /// As a segment of a path, and as the resource that is authorized.
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Service => "services",
            Self::PodAutoscaler => "podautoscalers.autoscaling.rouse.dev",
        }
    }

    pub(super) fn parse(resource: &str) -> Option<Self> {
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
    pub(super) fn of(
        values: &Values,
        namespace: &str,
        described: Described,
        name: &str,
        metric: &str,
    ) -> Result<Self, ApiError> {
        let Item { timestamp, window, value } = match described {
            Described::Service => values.of_service(namespace, metric, name)?,
            Described::PodAutoscaler => values.of_workload(namespace, metric, name)?,
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
