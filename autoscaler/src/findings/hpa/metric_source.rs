//! A metric of Rouse in an HPA: its name, its Service and its target. Pure.

use k8s_openapi::api::autoscaling::v2::{
    ExternalMetricSource, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricSpec, MetricTarget,
    ObjectMetricSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;

use crate::api::MetricName;
use crate::contract::metric_selector::{MetricSelectorError, names_service, selected_service};
use crate::contract::quantity::parse_milli;
use crate::contract::selector::Selector;
use crate::contract::{METRIC_DESIRED, SERVICE};
use crate::findings::Problem;
use crate::findings::reasons::Reason;

/// A metric of Rouse in an HPA.
pub struct HpaMetricSource<'a> {
    name: &'a str,
    service: Result<String, MetricSelectorError>,
    target: &'a MetricTarget,
}

/// The metrics of Rouse in an HPA. With `custom`, metrics of type Object count as well.
pub fn rouse_metrics(spec: &HorizontalPodAutoscalerSpec, custom: bool) -> Vec<HpaMetricSource<'_>> {
    spec.metrics.iter().flatten().filter_map(|metric| HpaMetricSource::of(metric, custom)).collect()
}

/// The Service of an HPA with a metric of Rouse, empty if the metric names none; `None` for other
/// HPAs.
pub fn named_service(hpa: &HorizontalPodAutoscaler, custom: bool) -> Option<String> {
    let of_metric = || {
        let metric = rouse_metrics(&hpa.spec, custom).into_iter().next()?;
        Some(metric.service.unwrap_or_default())
    };
    hpa.annotations().get(SERVICE).map(|service| service.trim().to_owned()).or_else(of_metric)
}

// === impl HpaMetricSource ===

impl<'a> HpaMetricSource<'a> {
    fn of(metric: &'a MetricSpec, custom: bool) -> Option<Self> {
        match (&metric.external, &metric.object) {
            (Some(external), _) => Self::external(external),
            (None, Some(object)) if custom => Self::object(object),
            _ => None,
        }
    }

    fn external(source: &'a ExternalMetricSource) -> Option<Self> {
        let selector = parsed(source.metric.selector.as_ref());
        let name = source.metric.name.as_str();
        // The other names are common: with a selector by other labels, another adapter serves them.
        let is_rouse = name == METRIC_DESIRED
            || is_measured(name) && (names_service(&selector) || selector.requirements().is_empty());
        is_rouse.then(|| Self { name, service: selected_service(&selector), target: &source.target })
    }

    /// A metric of a Service. A metric of a PodAutoscaler is left out: its PodAutoscaler exists
    /// already.
    fn object(source: &'a ObjectMetricSource) -> Option<Self> {
        let (name, object) = (source.metric.name.as_str(), &source.described_object);
        // Knative has a kind of the same name in a group of its own.
        let is_core = object.api_version.as_deref().is_none_or(|version| !version.contains('/'));
        let is_rouse = (name == METRIC_DESIRED || is_measured(name)) && object.kind == "Service" && is_core;
        let selector = parsed(source.metric.selector.as_ref());
        let service = match selector.requirements().first() {
            Some(requirement) => Err(MetricSelectorError::UnknownLabel(requirement.label().to_owned())),
            None => Ok(object.name.clone()),
        };
        is_rouse.then_some(Self { name, service, target: &source.target })
    }

    /// The Service that the metric names.
    pub(super) fn service(&self) -> Result<String, Problem> {
        let error = match &self.service {
            Ok(service) => return Ok(service.clone()),
            Err(error) => error,
        };
        let name = self.name;
        let (reason, problem) = match error {
            MetricSelectorError::NoService => {
                (Reason::ServiceMissing, format!("metric {name} names no Service"))
            }
            _ => {
                (Reason::InvalidMetricSelector, format!("the selector of metric {name} is invalid: {error}"))
            }
        };
        Err(Problem::with_usual_fix(reason, problem))
    }

    /// What is measured, and how much of it one pod should carry.
    ///
    /// The HPA divides `desired-replicas` by 1, so that metric has no such value: annotations and
    /// the cluster's settings give it.
    pub(super) fn name_and_target(&self) -> Result<(MetricName, Option<String>), Problem> {
        let average = self.target.average_value.as_ref().filter(|_| self.target.type_ == "AverageValue");
        let Some(average) = average else {
            return Err(Problem::new(
                Reason::TargetNotAverageValue,
                format!("the target of {} is of type {}", self.name, self.target.type_),
                "use type: AverageValue with averageValue, the value that one pod should carry",
            ));
        };
        let text = &average.0;
        match (self.name.parse(), parse_milli(text)) {
            (Ok(metric), Ok(1..)) => Ok((metric, Some(text.clone()))),
            (Ok(_), Ok(_)) => Err(self.bad_target(text, "set averageValue to a quantity above 0")),
            (Ok(_), Err(error)) => Err(self.bad_target(&format!("invalid: {error}"), "")),
            (Err(_), Ok(1000)) => Ok((MetricName::Concurrency, None)),
            (Err(_), _) => Err(self.bad_target(text, "set averageValue to \"1\"")),
        }
    }

    fn bad_target(&self, problem: &str, fix: &str) -> Problem {
        Problem::new(Reason::BadTarget, format!("the target of {} is {problem}", self.name), fix)
    }
}

/// The selector of a metric, in the form in which the HPA controller sends it. One that the API
/// server does not accept either selects nothing.
fn parsed(selector: Option<&LabelSelector>) -> Selector {
    let selector = selector.cloned().and_then(|selector| kube::core::Selector::try_from(selector).ok());
    selector.and_then(|selector| Selector::parse(&selector.to_string()).ok()).unwrap_or_default()
}

/// Whether the name is one of a measured metric, or an alias of one.
fn is_measured(name: &str) -> bool {
    name.parse::<MetricName>().is_ok()
}
