//! The SubjectAccessReview that a request needs.

use autoscaler::contract::METRIC_DESIRED;
use component_base::auth::User;
use http::request::Parts;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec,
};

use crate::external_metrics::route::Route;
use crate::external_metrics::value::object_metrics;
use crate::external_metrics::value::{GROUP, VERSION};

/// The review of `user` making this request.
pub(in crate::external_metrics) fn access_review(
    user: &User,
    route: &Route<'_>,
    request: &Parts,
) -> SubjectAccessReviewSpec {
    let resource_attributes = resource_attributes(route);
    let non_resource_attributes = resource_attributes.is_none().then(|| NonResourceAttributes {
        path: Some(request.uri.path().to_owned()),
        verb: Some(request.method.as_str().to_ascii_lowercase()),
    });
    SubjectAccessReviewSpec {
        user: Some(user.name.clone()),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        resource_attributes,
        non_resource_attributes,
    }
}

fn resource_attributes(route: &Route<'_>) -> Option<ResourceAttributes> {
    match route {
        Route::Metric { namespace, metric } => Some(of_metric(Some(namespace), metric)),
        // Permission to read decisions includes the reasons for them, their input, and the earlier
        // ones.
        Route::Why { namespace, .. } | Route::Trace { namespace, .. } | Route::History { namespace, .. } => {
            Some(of_metric(Some(namespace), METRIC_DESIRED))
        }
        Route::HistoryList { namespace } => Some(of_metric(*namespace, METRIC_DESIRED)),
        Route::ObjectMetric { namespace, described, name, metric } => Some(ResourceAttributes {
            group: Some(object_metrics::GROUP.to_owned()),
            version: Some(object_metrics::VERSION.to_owned()),
            resource: Some(described.resource().to_owned()),
            subresource: Some((*metric).to_owned()),
            name: Some((*name).to_owned()),
            namespace: Some((*namespace).to_owned()),
            verb: Some("get".to_owned()),
            ..ResourceAttributes::default()
        }),
        _ => None,
    }
}

/// Listing a metric in a namespace, or in all.
fn of_metric(namespace: Option<&str>, metric: &str) -> ResourceAttributes {
    ResourceAttributes {
        group: Some(GROUP.to_owned()),
        version: Some(VERSION.to_owned()),
        resource: Some(metric.to_owned()),
        namespace: namespace.map(str::to_owned),
        verb: Some("list".to_owned()),
        ..ResourceAttributes::default()
    }
}
