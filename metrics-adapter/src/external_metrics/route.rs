//! Route: the parsed path of a request.

use crate::external_metrics::discovery::ApiGroup;
use crate::external_metrics::value::object_metrics::{self, DescribedResource};
use crate::external_metrics::value::{GROUP, VERSION};

/// The resource of histories, which no metric is named like.
const HISTORY: &str = "history";
const OBJECT_GROUP: &str = object_metrics::GROUP;
const OBJECT_VERSION: &str = object_metrics::VERSION;
/// One more than the longest path has, of a metric of an object.
const MAX_SEGMENTS: usize = 9;

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
        namespace: &'a str,
        /// The metric's name.
        metric: &'a str,
    },
    /// `/apis/custom.metrics.k8s.io`
    ObjectGroup,
    /// `/apis/custom.metrics.k8s.io/v1beta2`
    ObjectResources,
    ObjectMetric {
        namespace: &'a str,
        /// The kind of object.
        described: DescribedResource,
        name: &'a str,
        /// The metric's name.
        metric: &'a str,
    },
    /// The reasons for a workload's size: `/why/shop/web`, or through the aggregation layer
    /// `/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/why/web`.
    Why {
        /// The workload's namespace.
        namespace: &'a str,
        name: &'a str,
    },
    /// The recorded load of a workload:
    /// `/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/trace/web`.
    Trace {
        /// The workload's namespace.
        namespace: &'a str,
        name: &'a str,
    },
    /// The last hour of a workload:
    /// `/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/history/web`.
    History {
        /// The workload's namespace.
        namespace: &'a str,
        name: &'a str,
    },
    /// The present state of all workloads, `/apis/external.metrics.k8s.io/v1beta1/history`, or of
    /// the workloads of one namespace.
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
        let segments: Vec<_> = path.split('/').skip(1).take(MAX_SEGMENTS).collect();
        match segments[..] {
            ["readyz"] => Self::Probe(Probe::Ready),
            ["livez" | "healthz"] => Self::Probe(Probe::Live),
            ["apis"] => Self::Groups,
            ["apis", GROUP, ref rest @ ..] => Self::of_group(rest),
            ["apis", OBJECT_GROUP, ref rest @ ..] => Self::of_object_group(rest),
            ["openapi", ref rest @ ..] => Self::open_api(rest),
            ["why", namespace, name] if ![namespace, name].contains(&"") => Self::Why { namespace, name },
            _ => Self::Other,
        }
    }

    fn of_group(rest: &[&'a str]) -> Self {
        match *rest {
            [] => Self::Group,
            [VERSION] => Self::Resources,
            [VERSION, HISTORY] => Self::HistoryList { namespace: None },
            [VERSION, "namespaces", namespace, ref rest @ ..] if !namespace.is_empty() => {
                Self::of_namespace(namespace, rest)
            }
            _ => Self::Other,
        }
    }

    fn of_namespace(namespace: &'a str, rest: &[&'a str]) -> Self {
        match *rest {
            [HISTORY] => Self::HistoryList { namespace: Some(namespace) },
            [metric] if !metric.is_empty() => Self::Metric { namespace, metric },
            [_, ""] => Self::Other,
            [HISTORY, name] => Self::History { namespace, name },
            ["why", name] => Self::Why { namespace, name },
            ["trace", name] => Self::Trace { namespace, name },
            _ => Self::Other,
        }
    }

    fn of_object_group(rest: &[&'a str]) -> Self {
        match *rest {
            [] => Self::ObjectGroup,
            [OBJECT_VERSION] => Self::ObjectResources,
            [OBJECT_VERSION, "namespaces", namespace, resource, name, metric]
                if ![namespace, name, metric].contains(&"") =>
            {
                let described = DescribedResource::parse(resource);
                described.map_or(Self::Other, |described| Self::ObjectMetric {
                    namespace,
                    described,
                    name,
                    metric,
                })
            }
            _ => Self::Other,
        }
    }

    fn open_api(rest: &[&'a str]) -> Self {
        match *rest {
            ["v2"] => Self::OpenApi2,
            ["v3"] => Self::OpenApi,
            ["v3", "apis", group, version] => {
                let described =
                    ApiGroup::ALL.into_iter().find(|it| (it.name(), it.version()) == (group, version));
                described.map_or(Self::Other, Self::OpenApiOf)
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
