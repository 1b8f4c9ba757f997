//! The label selectors in the query of a metric request.
//!
//! An external metric needs exactly `service=<name>`; a metric of an object must have no selector.

use autoscaler::contract::SERVICE_SELECTOR;
use autoscaler::contract::selector::{ParseSelectorError, Requirement, Selector};
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

/// Why a selector does not name one Service.
#[derive(Debug, thiserror::Error)]
pub enum MetricSelectorError {
    /// The query string cannot be parsed.
    #[error("{0}")]
    Query(#[from] QueryRejection),
    /// The selector cannot be parsed.
    #[error("{0}")]
    Syntax(#[from] ParseSelectorError),
    /// There is no selector.
    #[error("it is empty")]
    Empty,
    /// The selector has other requirements.
    #[error("{0:?}")]
    Unsupported(String),
}

/// The Service that the query's label selector names.
///
/// # Errors
/// When the selector is not exactly `service=<name>`.
pub(super) fn service_of(uri: &Uri) -> Result<String, MetricSelectorError> {
    let Query(parameters) = Query::<QueryParameters>::try_from_uri(uri)?;
    let selector = Selector::parse(&parameters.label_selector)?;
    match selector.requirements() {
        [Requirement::In(label, values)] if label == SERVICE_SELECTOR => match values.as_slice() {
            [service] if !service.is_empty() => Ok(service.clone()),
            _ => Err(MetricSelectorError::Unsupported(selector.to_string())),
        },
        [] => Err(MetricSelectorError::Empty),
        _ => Err(MetricSelectorError::Unsupported(selector.to_string())),
    }
}

/// The metric selector of a request for an object's metric; `None` if it is empty, as it must be.
///
/// # Errors
/// When the query string cannot be parsed.
pub(super) fn metric_selector(uri: &Uri) -> Result<Option<String>, MetricSelectorError> {
    let Query(parameters) = Query::<QueryParameters>::try_from_uri(uri)?;
    Ok(Some(parameters.metric_label_selector).filter(|selector| !selector.is_empty()))
}
