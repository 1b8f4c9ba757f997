//! The Service that a metric's label selector names.
//!
//! Rouse's metrics have one label, `service`. A selector is read as Kubernetes reads it: it selects
//! a metric whose labels meet all its requirements, whether `matchLabels` or `matchExpressions`
//! states them. The zero-scaler and the metrics API read it with this one function, so an HPA that
//! is accepted gets its metric.

use std::collections::BTreeMap;

use super::SERVICE_SELECTOR;
use super::selector::{Requirement, Selector};

/// Why a selector does not select the metric of one Service.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MetricSelectorError {
    /// No requirement names a Service.
    #[error("it names no Service")]
    NoService,
    /// A requirement on a label that no metric of Rouse has.
    #[error("metrics of Rouse have no label {0:?}")]
    UnknownLabel(String),
    /// It selects several Services, or none of those that it names.
    #[error("{0:?} does not select exactly one Service")]
    NotOneService(String),
}

/// The only Service whose metric a selector selects.
///
/// # Errors
/// When it selects none, or several.
pub fn selected_service(selector: &Selector) -> Result<String, MetricSelectorError> {
    let others = selector.requirements().iter().filter(|other| other.label() != SERVICE_SELECTOR);
    let mut unmet = others.filter(|other| !other.holds(&BTreeMap::new()));
    let named = selector.requirements().iter().find_map(|requirement| match requirement {
        Requirement::In(label, services) if label == SERVICE_SELECTOR => Some(services),
        _ => None,
    });
    let services = named.ok_or(MetricSelectorError::NoService)?;
    if let Some(unmet) = unmet.next() {
        return Err(MetricSelectorError::UnknownLabel(unmet.label().to_owned()));
    }
    let is_selected = |service: &&String| {
        !service.is_empty()
            && selector.matches(&BTreeMap::from([(SERVICE_SELECTOR.to_owned(), (*service).clone())]))
    };
    let mut selected: Vec<&String> = services.iter().filter(is_selected).collect();
    selected.dedup();
    match selected[..] {
        [service] => Ok(service.clone()),
        [] if services.iter().all(String::is_empty) => Err(MetricSelectorError::NoService),
        _ => Err(MetricSelectorError::NotOneService(selector.to_string())),
    }
}

/// Whether a selector has a requirement on the Service.
pub fn names_service(selector: &Selector) -> bool {
    selector.requirements().iter().any(|requirement| requirement.label() == SERVICE_SELECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(selector: &str) -> Result<String, MetricSelectorError> {
        selected_service(&Selector::parse(selector).unwrap())
    }

    #[test]
    fn selects_a_service_as_kubernetes_does() {
        for selector in [
            "service=web",
            "service in (web)",
            "service in (web, api),service!=api",
            "service=web,service",
            "service=web,!tier,tier!=back,tier notin (a, b)",
        ] {
            assert_eq!(service(selector).as_deref(), Ok("web"), "{selector}");
        }
    }

    #[test]
    fn rejects_a_selector_of_no_metric_or_of_several() {
        use MetricSelectorError::{NoService, NotOneService, UnknownLabel};
        for (selector, error) in [
            ("", NoService),
            ("service", NoService),
            ("service!=web", NoService),
            ("app=web", NoService),
            ("service=", NoService),
            ("service=web,tier=front", UnknownLabel("tier".into())),
            ("service=web,tier", UnknownLabel("tier".into())),
            ("service in (web,api)", NotOneService("service in (web,api)".into())),
            ("service=web,service=api", NotOneService("service=web,service=api".into())),
            ("service=web,!service", NotOneService("service=web,!service".into())),
        ] {
            assert_eq!(service(selector), Err(error), "{selector}");
        }
    }
}
