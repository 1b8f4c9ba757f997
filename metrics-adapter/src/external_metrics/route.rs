//! Route: the parsed path of a request.

use crate::external_metrics::discovery::ApiGroup;
use crate::external_metrics::value::object_metrics::{self, DescribedResource};
use crate::external_metrics::value::{GROUP, VERSION};

/// The resource of histories, which no metric is named like.
const HISTORY: &str = "history";
const OBJECT_GROUP: &str = object_metrics::GROUP;
const OBJECT_VERSION: &str = object_metrics::VERSION;

/// The endpoint that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// A probe of kubelets and load balancers.
    Probe(Probe),
    /// `/apis`
    Groups,
    /// `/apis/external.metrics.k8s.io`
    Group,
    /// `/apis/external.metrics.k8s.io/v1beta1`
    Resources,
    /// An external metric.
    Metric {
        /// The namespace.
        namespace: &'a str,
        /// The metric's name.
        metric: &'a str,
    },
    /// `/apis/custom.metrics.k8s.io`
    ObjectGroup,
    /// `/apis/custom.metrics.k8s.io/v1beta2`
    ObjectResources,
    /// A metric of an object.
    ObjectMetric {
        /// The namespace.
        namespace: &'a str,
        /// The kind of object.
        described: DescribedResource,
        /// Its name.
        name: &'a str,
        /// The metric's name.
        metric: &'a str,
    },
    /// The reasons for a workload's size: `/why/shop/web`, or through the aggregation layer
    /// `/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/why/web`.
    Why {
        /// The workload's namespace.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// The recorded load of a workload:
    /// `/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/trace/web`.
    Trace {
        /// The workload's namespace.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// The last hour of a workload:
    /// `/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/history/web`.
    History {
        /// The workload's namespace.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// The present state of all workloads, `/apis/external.metrics.k8s.io/v1beta1/history`, or of
    /// those of one namespace.
    HistoryList {
        /// The namespace; `None` for all.
        namespace: Option<&'a str>,
    },
    /// `/openapi/v3`
    OpenApi,
    /// `/openapi/v3/apis/<group>/<version>`
    OpenApiOf(ApiGroup),
    /// `/openapi/v2`
    OpenApi2,
    /// A path that is not served.
    Other,
}

/// Which probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// `/readyz`
    Ready,
    /// `/livez` and `/healthz`
    Live,
}

// === impl Route ===

impl<'a> Route<'a> {
    /// Whether it belongs to custom.metrics.k8s.io.
    pub(super) fn is_custom(&self) -> bool {
        matches!(
            self,
            Self::ObjectGroup
                | Self::ObjectResources
                | Self::ObjectMetric { .. }
                | Self::OpenApiOf(ApiGroup::Object)
        )
    }

    /// Whether only the leader can serve it.
    pub(super) fn needs_leader(&self) -> bool {
        matches!(
            self,
            Self::Metric { .. }
                | Self::ObjectMetric { .. }
                | Self::Why { .. }
                | Self::Trace { .. }
                | Self::History { .. }
                | Self::HistoryList { .. }
        )
    }

    pub(super) fn parse(path: &'a str) -> Self {
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments = path.split('/').skip(1);
        let mut next = || segments.next();
        match [next(), next(), next(), next(), next(), next(), next()] {
            [Some("readyz"), None, ..] => Self::Probe(Probe::Ready),
            [Some("livez" | "healthz"), None, ..] => Self::Probe(Probe::Live),
            [Some("apis"), None, ..] => Self::Groups,
            [Some("apis"), Some(GROUP), None, ..] => Self::Group,
            [Some("apis"), Some(GROUP), Some(VERSION), None, ..] => Self::Resources,
            [Some("apis"), Some(GROUP), Some(VERSION), Some(HISTORY), None, ..] => {
                Self::HistoryList { namespace: None }
            }
            [
                Some("apis"),
                Some(GROUP),
                Some(VERSION),
                Some("namespaces"),
                Some(namespace),
                Some(HISTORY),
                None,
            ] if !namespace.is_empty() => Self::HistoryList { namespace: Some(namespace) },
            [
                Some("apis"),
                Some(GROUP),
                Some(VERSION),
                Some("namespaces"),
                Some(namespace),
                Some(HISTORY),
                Some(name),
            ] if !namespace.is_empty() && !name.is_empty() && next().is_none() => {
                Self::History { namespace, name }
            }
            [
                Some("apis"),
                Some(GROUP),
                Some(VERSION),
                Some("namespaces"),
                Some(namespace),
                Some(metric),
                None,
            ] if !namespace.is_empty() && !metric.is_empty() => Self::Metric { namespace, metric },
            [Some("apis"), Some(OBJECT_GROUP), None, ..] => Self::ObjectGroup,
            [Some("apis"), Some(OBJECT_GROUP), Some(OBJECT_VERSION), None, ..] => Self::ObjectResources,
            [
                Some("apis"),
                Some(OBJECT_GROUP),
                Some(OBJECT_VERSION),
                Some("namespaces"),
                Some(namespace),
                Some(resource),
                Some(name),
            ] => match (next(), next(), DescribedResource::parse(resource)) {
                (Some(metric), None, Some(described)) if ![namespace, name, metric].contains(&"") => {
                    Self::ObjectMetric { namespace, described, name, metric }
                }
                _ => Self::Other,
            },
            [Some("openapi"), Some("v2"), None, ..] => Self::OpenApi2,
            [Some("openapi"), Some("v3"), None, ..] => Self::OpenApi,
            [Some("openapi"), Some("v3"), Some("apis"), Some(group), Some(version), None, ..] => {
                let described =
                    ApiGroup::ALL.into_iter().find(|it| (it.name(), it.version()) == (group, version));
                described.map_or(Self::Other, Self::OpenApiOf)
            }
            [Some("why"), Some(namespace), Some(name), None, ..]
                if !namespace.is_empty() && !name.is_empty() =>
            {
                Self::Why { namespace, name }
            }
            [
                Some("apis"),
                Some(GROUP),
                Some(VERSION),
                Some("namespaces"),
                Some(namespace),
                Some(report @ ("why" | "trace")),
                Some(name),
            ] if !namespace.is_empty() && !name.is_empty() && next().is_none() => {
                if report == "why" {
                    Self::Why { namespace, name }
                } else {
                    Self::Trace { namespace, name }
                }
            }
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_kind_of_path() {
        let base = "/apis/external.metrics.k8s.io/v1beta1";
        let metric = Route::Metric { namespace: "shop", metric: "concurrency" };
        let custom = "/apis/custom.metrics.k8s.io/v1beta2";
        let (described, name, metric_name) = (DescribedResource::Service, "web", "concurrency");
        let object = Route::ObjectMetric { namespace: "shop", described, name, metric: metric_name };
        let why = Route::Why { namespace: "shop", name: "web" };
        for (path, route) in [
            ("/readyz".to_owned(), Route::Probe(Probe::Ready)),
            ("/healthz".to_owned(), Route::Probe(Probe::Live)),
            ("/apis".to_owned(), Route::Groups),
            ("/apis/".to_owned(), Route::Groups),
            ("/apis/external.metrics.k8s.io".to_owned(), Route::Group),
            (base.to_owned(), Route::Resources),
            (format!("{base}/namespaces/shop/concurrency"), metric),
            ("/why/shop/web".to_owned(), why),
            (format!("{base}/namespaces/shop/why/web"), why),
            (
                format!("{base}/namespaces/shop/history/web"),
                Route::History { namespace: "shop", name: "web" },
            ),
            (format!("{base}/namespaces/shop/history"), Route::HistoryList { namespace: Some("shop") }),
            (format!("{base}/history"), Route::HistoryList { namespace: None }),
            (format!("{base}/history/web"), Route::Other),
            (format!("{base}/namespaces/shop/history/web/x"), Route::Other),
            (format!("{custom}/namespaces/shop/services/web/concurrency"), object),
            (format!("{custom}/namespaces/shop/services/web"), Route::Other),
            (format!("{custom}/namespaces/shop/services/web/concurrency/x"), Route::Other),
            (format!("{custom}/namespaces/shop/pods/web/concurrency"), Route::Other),
            (custom.to_owned(), Route::ObjectResources),
            (format!("{base}/namespaces/shop/why/web/x"), Route::Other),
            ("/why/shop".to_owned(), Route::Other),
            ("/why/shop/web/x".to_owned(), Route::Other),
            (format!("{base}/namespaces/shop"), Route::Other),
            (format!("{base}/namespaces//concurrency"), Route::Other),
            (format!("{base}/namespaces/shop/concurrency/x"), Route::Other),
            ("/openapi/v3".to_owned(), Route::OpenApi),
            ("/openapi/v2".to_owned(), Route::OpenApi2),
            ("/openapi/v2/x".to_owned(), Route::Other),
            (format!("/openapi/v3{base}"), Route::OpenApiOf(ApiGroup::External)),
            (format!("/openapi/v3{custom}"), Route::OpenApiOf(ApiGroup::Object)),
            ("/openapi/v3/apis/external.metrics.k8s.io/v1".to_owned(), Route::Other),
            ("/readyz/x".to_owned(), Route::Other),
            ("/".to_owned(), Route::Other),
            ("*".to_owned(), Route::Other),
        ] {
            assert_eq!(Route::parse(&path), route, "{path}");
        }
    }
}
