//! Which pods get the requests of a Service. Pure.
//!
//! Input: the Service, the PodAutoscaler, the scale target and the last ServerlessService. Output:
//! the selector in the specs of ServerlessService and Metric, by which activators choose pods and
//! the metrics-adapter counts requests.
//!
//! A target may have pods of several versions, such as a canary's or a preview's. So the selector
//! of the target is used only for a Service that never had a selector of its own.

use autoscaler::api::{SelectorSource, ServerlessServiceSpec};
use autoscaler::contract::selector::Selector;
use k8s_openapi::api::core::v1::Service;

/// A selector of pods, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodSelection {
    /// The selector in its text form.
    pub selector: String,
    /// Where it comes from.
    pub source: SelectorSource,
}

/// Where the selector of a workload's pods can come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectorSources<'a> {
    /// The Service; `None` if it does not exist.
    pub service: Option<&'a Service>,
    /// The selector that the PodAutoscaler names.
    pub named: Option<&'a Selector>,
    /// The last ServerlessService of this Service.
    pub before: Option<&'a ServerlessServiceSpec>,
    /// The selector of the scale target, in its text form.
    pub target: &'a str,
}

// === impl SelectorSources ===

impl SelectorSources<'_> {
    /// The selector: the Service's own, else the one that the PodAutoscaler names, else the one
    /// that the Service had, else the target's.
    pub(crate) fn select(&self) -> PodSelection {
        let own = self.service.and_then(|service| service.spec.as_ref()?.selector.as_ref());
        if let Some(own) = own.filter(|labels| !labels.is_empty()) {
            return PodSelection {
                selector: Selector::from(own).to_string(),
                source: SelectorSource::Service,
            };
        }
        let before = self
            .before
            .map(|before| PodSelection { selector: before.selector.clone(), source: before.selector_source });
        if self.service.is_none()
            && let Some(before) = before
        {
            return before;
        }
        if let Some(named) = self.named {
            return PodSelection { selector: named.to_string(), source: SelectorSource::PodAutoscaler };
        }
        before.filter(|before| before.source == SelectorSource::Service).unwrap_or_else(|| PodSelection {
            selector: self.target.to_owned(),
            source: SelectorSource::Target,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(selector: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"selector": selector}})).unwrap()
    }

    fn before(selector: &str, source: &str) -> ServerlessServiceSpec {
        serde_json::from_value(json!({
            "service": "web", "selector": selector, "selectorSource": source, "mode": "Serve", "numActivators": 2,
        }))
        .unwrap()
    }

    #[test]
    fn selects_by_service_then_pod_autoscaler_then_former_selector_then_target() {
        let attached = service(json!({"track": "stable", "app": "web"}));
        let (managed, cleared) = (service(Value::Null), service(json!({})));
        let named = Selector::parse_labels("app=web,track=canary").unwrap();
        let had = before("app=web,track=old", "Service");
        let was_named = before("app=web,track=canary", "PodAutoscaler");
        let of_target = before("app=old", "Target");
        for (service, named, before, selector, source) in [
            (Some(&attached), Some(&named), Some(&had), "app=web,track=stable", SelectorSource::Service),
            (Some(&managed), Some(&named), Some(&had), "app=web,track=canary", SelectorSource::PodAutoscaler),
            (Some(&managed), None, Some(&had), "app=web,track=old", SelectorSource::Service),
            (Some(&cleared), None, Some(&had), "app=web,track=old", SelectorSource::Service),
            (Some(&managed), None, Some(&was_named), "app=web", SelectorSource::Target),
            (Some(&managed), None, Some(&of_target), "app=web", SelectorSource::Target),
            (Some(&managed), None, None, "app=web", SelectorSource::Target),
            (None, Some(&named), Some(&had), "app=web,track=old", SelectorSource::Service),
            (None, None, None, "app=web", SelectorSource::Target),
        ] {
            let sources = SelectorSources { service, named, before, target: "app=web" };
            let expected = PodSelection { selector: selector.to_owned(), source };
            assert_eq!(sources.select(), expected, "{sources:?}");
        }
    }
}
