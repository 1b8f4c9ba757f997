//! The annotations of an HPA that become fields of its PodAutoscaler. Pure.
//!
//! All other annotations of the group are copied to the PodAutoscaler and parsed there. Whitespace
//! around a value is ignored, as there.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;

use crate::contract::pod_limit::MAX_CONTAINER_CONCURRENCY;
use crate::contract::{CONTAINER_CONCURRENCY, GROUP, METRIC, NO_METRIC, SCALE_TO_ZERO, SERVICE};
use crate::findings::Problem;
use crate::findings::annotations::name_of_group;
use crate::findings::reasons::Reason;

/// The parsed annotations. An absent or invalid one has the default of its type.
#[derive(Debug, Default)]
pub(super) struct HpaAnnotations {
    pub(super) scale_to_zero: bool,
    /// Whether the HPA scales on its own metrics alone.
    pub(super) is_without_metric: bool,
    /// The Service that such an HPA names.
    pub(super) service: Option<String>,
    /// 0 means no limit but that of each pod.
    pub(super) container_concurrency: u32,
    /// The invalid ones.
    pub(super) problems: Vec<Problem>,
}

// === impl HpaAnnotations ===

impl HpaAnnotations {
    pub(super) fn of(hpa: &HorizontalPodAutoscaler) -> Self {
        let mut parsed = Self::default();
        parsed.scale_to_zero =
            parsed.parse(hpa, SCALE_TO_ZERO, "\"true\" or \"false\"", |text| text.parse().ok());
        let text = |name| hpa.annotations().get(name).map(|text| text.trim());
        parsed.is_without_metric = text(METRIC) == Some(NO_METRIC);
        parsed.service = text(SERVICE).filter(|service| !service.is_empty()).map(str::to_owned);
        let range = format!("a number from 0 to {MAX_CONTAINER_CONCURRENCY}");
        parsed.container_concurrency = parsed.parse(hpa, CONTAINER_CONCURRENCY, &range, |text| {
            text.parse().ok().filter(|limit| *limit <= MAX_CONTAINER_CONCURRENCY)
        });
        parsed
    }

    fn parse<T: Default>(
        &mut self,
        hpa: &HorizontalPodAutoscaler,
        name: &str,
        valid: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let Some(text) = hpa.annotations().get(name) else { return T::default() };
        parse(text.trim()).unwrap_or_else(|| {
            let problem = format!("annotation {name} is {text:?} and is ignored");
            self.problems.push(Problem::new(Reason::BadSetting, problem, format!("set it to {valid}")));
            T::default()
        })
    }
}

/// The problem of an HPA that has annotations of Rouse and no metric of Rouse.
pub fn annotated_without_metric(hpa: &HorizontalPodAutoscaler) -> Option<Problem> {
    let annotation = hpa.annotations().keys().find(|key| name_of_group(key).is_some())?;
    let problem = format!(
        "the HPA has the annotation {annotation} and no metric of Rouse, so Rouse does not follow it"
    );
    Some(Problem::with_usual_fix(Reason::NoMetric, problem))
}

/// The annotations of Rouse's group.
pub(super) fn rouse_annotations(hpa: &HorizontalPodAutoscaler) -> BTreeMap<String, String> {
    let prefix = format!("{GROUP}/");
    let annotations = hpa.annotations().iter().filter(|(name, _)| name.starts_with(&prefix));
    annotations.map(|(name, value)| (name.clone(), value.clone())).collect()
}
