//! The label selectors in the query of a metric request.
//!
//! An external metric needs a selector of one Service; a metric of an object must have no selector.

use autoscaler::contract::metric_selector::{MetricSelectorError, selected_service};
use autoscaler::contract::selector::{ParseSelectorError, Selector};
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use http::Uri;
use serde::Deserialize;

/// Query parameters of a metric request. Others, of list and watch, are ignored.
#[derive(Deserialize)]
struct QueryParameters {
    #[serde(default, rename = "labelSelector")]
    label_selector: String,
    /// Used by custom.metrics.k8s.io.
    #[serde(default, rename = "metricLabelSelector")]
    metric_label_selector: String,
}

/// Why a query does not name one Service.
#[derive(Debug, thiserror::Error)]
pub enum MetricQueryError {
    /// The query string cannot be parsed.
    #[error(transparent)]
    Query(#[from] QueryRejection),
    /// The selector cannot be parsed.
    #[error(transparent)]
    Syntax(#[from] ParseSelectorError),
    /// The selector names another number of Services.
    #[error(transparent)]
    Selector(#[from] MetricSelectorError),
}

/// The Service that the query's label selector names.
///
/// # Errors
/// When the selector does not select the metric of exactly one Service.
pub(super) fn service_of(uri: &Uri) -> Result<String, MetricQueryError> {
    let Query(parameters) = Query::<QueryParameters>::try_from_uri(uri)?;
    Ok(selected_service(&Selector::parse(&parameters.label_selector)?)?)
}

/// The metric selector of a request for an object's metric; `None` if it is empty, as it must be.
///
/// # Errors
/// When the query string cannot be parsed.
pub(super) fn metric_selector(uri: &Uri) -> Result<Option<String>, MetricQueryError> {
    let Query(parameters) = Query::<QueryParameters>::try_from_uri(uri)?;
    Ok(Some(parameters.metric_label_selector).filter(|selector| !selector.is_empty()))
}
