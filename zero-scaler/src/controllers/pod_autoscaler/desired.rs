//! The objects that a workload should have. Pure: an observation and a plan in, JSON for
//! server-side apply out.

use std::collections::HashSet;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::{
    MetricSpec, NoWakeSpec, PodAutoscaler, PodObservation, RequestTimeouts, ServerlessServiceSpec,
};
use autoscaler::contract::WORKLOAD_LABEL;
use autoscaler::contract::selector::Selector;
use autoscaler::contract::short_name::workload_label;
use autoscaler::scaling::scale_to_zero;
use autoscaler::settings::{Settings, SidecarMode};
use autoscaler::stats::AppStat;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use super::decide::Plan;
use crate::kubernetes::server_side_apply::owner;
use crate::pods::pod_selection::PodSelection;

/// The spec of the Metric: what the metrics-adapter collects.
pub(super) fn metric(
    autoscaler: &PodAutoscaler,
    selection: &PodSelection,
    target: &str,
    sidecar: SidecarMode,
    container_concurrency: Option<u32>,
    bypassed: bool,
) -> MetricSpec {
    // Pods without a sidecar report nothing.
    let is_other = sidecar.is_required() && !selects_the_same(&selection.selector, target);
    MetricSpec {
        service: autoscaler.spec.service.clone(),
        selector: selection.selector.clone(),
        target_selector: is_other.then(|| target.to_owned()),
        sidecar,
        container_concurrency,
        bypassed,
    }
}

/// Whether two selectors have the same requirements, in whatever order.
fn selects_the_same(one: &str, other: &str) -> bool {
    let requirements = |text: &str| {
        let selector = Selector::parse(text).ok()?;
        Some(selector.requirements().iter().cloned().collect::<HashSet<_>>())
    };
    one == other || requirements(one).is_some_and(|one| Some(one) == requirements(other))
}

/// The spec of the ServerlessService: where requests go.
pub(super) fn serverless_service(
    autoscaler: &PodAutoscaler,
    selection: &PodSelection,
    settings: &Settings,
    sidecar: SidecarMode,
    plan: &Plan,
) -> ServerlessServiceSpec {
    let limit = Some(autoscaler.spec.container_concurrency).filter(|limit| *limit > 0);
    ServerlessServiceSpec {
        service: autoscaler.spec.service.clone(),
        selector: selection.selector.clone(),
        selector_source: selection.source,
        mode: plan.mode,
        num_activators: plan.activators,
        container_concurrency: limit.or(plan.temporary_limit).unwrap_or(0),
        sidecar,
        paused: plan.paused,
        paused_until: settings.scale.pause.end().filter(|_| plan.paused).and_then(time),
        wake_timeout_seconds: settings.wake.hold_timeout().map(seconds),
        wake_queue_depth: settings.wake.queue_depth,
        no_wake: NoWakeSpec::of_settings(settings),
        waiting_page: settings.wake.waiting_page,
        sse_keep_alive: settings.wake.sse_keep_alive,
        timeouts: (!sidecar.is_required()).then(|| timeouts(settings)),
        observation: (!sidecar.is_required() && autoscaler.spec.learns(settings))
            .then(|| observation(settings)),
        // Without it, fallback wakers treat the workload at zero as paused.
        wake_target: scale_to_zero::is_allowed(autoscaler.spec.scale_to_zero, settings)
            .then(|| autoscaler.spec.scale_target_ref.clone()),
    }
}

fn time(millis: i64) -> Option<Time> {
    jiff::Timestamp::from_millisecond(millis).ok().map(Time)
}

fn observation(settings: &Settings) -> PodObservation {
    let objective = settings.learning.objective.map(|objective| objective.threshold);
    let micros = AppStat::objective_micros_of(objective);
    PodObservation { objective_micros: u32::try_from(micros).unwrap_or(u32::MAX) }
}

fn timeouts(settings: &Settings) -> RequestTimeouts {
    RequestTimeouts {
        total_millis: millis(settings.timeouts.total),
        response_start_millis: millis(settings.timeouts.response_start),
        idle_millis: millis(settings.timeouts.idle),
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// The object of a workload that has this spec, for server-side apply.
pub(super) fn child<K: Resource<DynamicType = ()>>(
    key: &Key,
    autoscaler: &PodAutoscaler,
    spec: &impl Serialize,
) -> Value {
    json!({
        "apiVersion": PodAutoscaler::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {WORKLOAD_LABEL: workload_label(&key.name)},
            "ownerReferences": [owner(autoscaler)],
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use autoscaler::scaling::active_condition::{ActiveCondition, ActiveReason};
    use autoscaler::scaling::scale_to_zero::ActivePhase;
    use autoscaler::settings::AutoscalerConfig;

    use super::*;
    use autoscaler::api::{Metric, SelectorSource, ServerlessService, SksMode};

    const REQUIRED: SidecarMode = SidecarMode::Required;

    #[test]
    fn sets_wake_target_only_if_scale_to_zero_is_on() {
        let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
        let mut autoscaler = autoscaler();
        let target = |autoscaler: &_| {
            serverless_service(autoscaler, &selection("app=web"), &settings, REQUIRED, &plan()).wake_target
        };
        assert_eq!(target(&autoscaler), None, "at zero it would be paused");
        autoscaler.spec.scale_to_zero = true;
        assert_eq!(target(&autoscaler), Some(autoscaler.spec.scale_target_ref.clone()));
    }

    #[test]
    fn passes_wake_timeout_and_queue_depth_to_activators() {
        let annotations = [("wake-timeout", "20m"), ("wake-queue-depth", "7")]
            .map(|(key, value)| (format!("autoscaling.rouse.dev/{key}"), value.to_owned()));
        let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &annotations.into());
        let spec = serverless_service(&autoscaler(), &selection("app=web"), &settings, REQUIRED, &plan());
        assert_eq!((errors, spec.wake_timeout_seconds, spec.wake_queue_depth), (vec![], Some(1200), Some(7)));
    }

    #[test]
    fn temporary_limit_applies_only_without_a_container_concurrency() {
        let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
        let plan = Plan { temporary_limit: Some(4), ..plan() };
        let of = |autoscaler: &PodAutoscaler| {
            let spec = serverless_service(autoscaler, &selection("app=web"), &settings, REQUIRED, &plan);
            spec.container_concurrency
        };
        let mut autoscaler = autoscaler();
        assert_eq!(of(&autoscaler), 10);
        autoscaler.spec.container_concurrency = 0;
        assert_eq!(of(&autoscaler), 4);
    }

    #[test]
    fn passes_no_wake_rules_to_activators() {
        let annotations = [("no-wake", "GET /healthz,HEAD"), ("no-wake-response", "503")]
            .map(|(key, value)| (format!("autoscaling.rouse.dev/{key}"), value.to_owned()));
        let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &annotations.into());
        let spec = serverless_service(&autoscaler(), &selection("app=web"), &settings, REQUIRED, &plan());
        let expected = NoWakeSpec { requests: "GET /healthz, HEAD".into(), response: Some("503".into()) };
        assert_eq!((errors, spec.no_wake), (vec![], Some(expected)));
    }

    #[test]
    fn passes_settings_of_held_requests_to_activators() {
        let annotations = ["waiting-page", "sse-keep-alive"]
            .map(|key| (format!("autoscaling.rouse.dev/{key}"), "true".to_owned()));
        let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &annotations.into());
        let spec = serverless_service(&autoscaler(), &selection("app=web"), &settings, REQUIRED, &plan());
        assert_eq!((errors, spec.waiting_page, spec.sse_keep_alive), (vec![], true, true));
    }

    #[test]
    fn passes_timeouts_to_activators_only_without_sidecar() {
        let annotations = [("timeout", "20m"), ("idle-timeout", "500ms")]
            .map(|(key, value)| (format!("autoscaling.rouse.dev/{key}"), value.to_owned()));
        let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &annotations.into());
        assert_eq!(errors, []);
        let of = |sidecar| {
            serverless_service(&autoscaler(), &selection("app=web"), &settings, sidecar, &plan()).timeouts
        };
        let expected =
            RequestTimeouts { total_millis: 1_200_000, response_start_millis: 300_000, idle_millis: 500 };
        assert_eq!((of(SidecarMode::None), of(REQUIRED)), (Some(expected), None));
    }

    #[test]
    fn metric_has_selector_of_target_only_if_it_selects_others() {
        for (selector, target, sidecar, expected) in [
            ("app=web,track=stable", "app=web", REQUIRED, Some("app=web")),
            ("app=web,track=stable", "track=stable,app=web", REQUIRED, None),
            ("app=web", "app in (web)", REQUIRED, None),
            ("app=web", "a>b", REQUIRED, Some("a>b")),
            ("app=web,track=stable", "app=web", SidecarMode::None, None),
        ] {
            let metric = metric(&autoscaler(), &selection(selector), target, sidecar, None, false);
            assert_eq!(metric.target_selector.as_deref(), expected, "{selector} {target}");
        }
    }

    fn selection(selector: &str) -> PodSelection {
        PodSelection { selector: selector.to_owned(), source: SelectorSource::Target }
    }

    #[test]
    fn activators_observe_pods_only_without_sidecar_and_if_a_target_is_learned() {
        let of = |sidecar, mode: &str| {
            let annotations = [("learn-target", mode), ("latency-objective", "200ms@p99")]
                .map(|(key, value)| (format!("autoscaling.rouse.dev/{key}"), value.to_owned()));
            let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &annotations.into());
            assert_eq!(errors, []);
            serverless_service(&autoscaler(), &selection("app=web"), &settings, sidecar, &plan()).observation
        };
        let expected = PodObservation { objective_micros: 200_000 };
        assert_eq!(of(SidecarMode::None, "Recommend"), Some(expected));
        assert_eq!(of(SidecarMode::None, "Off"), None);
        assert_eq!(of(REQUIRED, "Recommend"), None);
    }

    fn plan() -> Plan {
        Plan {
            activation: ActiveCondition { phase: ActivePhase::Active, reason: ActiveReason::PodsReady },
            paused: false,
            write: None,
            probe: false,
            check: false,
            mode: SksMode::Serve,
            activators: 3,
            temporary_limit: None,
            why: None,
            recheck: None,
        }
    }

    fn autoscaler() -> PodAutoscaler {
        serde_json::from_value(json!({
            "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web-deployment"},
                "service": "web-service", "target": "70", "containerConcurrency": 10, "maxReplicas": 5},
        }))
        .unwrap()
    }

    #[test]
    fn builds_metric_and_serverless_service() {
        let (key, autoscaler) = (Key::new("shop", "web"), autoscaler());
        let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
        let spec = metric(&autoscaler, &selection("app=web"), "app=web", REQUIRED, Some(10), false);
        assert_eq!(
            child::<Metric>(&key, &autoscaler, &spec),
            json!({
                "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "Metric",
                "metadata": {"name": "web", "namespace": "shop", "labels": {"autoscaling.rouse.dev/workload": "web"},
                    "ownerReferences": [{"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
                        "name": "web", "uid": "u-1", "controller": true}]},
                "spec": {"service": "web-service", "selector": "app=web", "containerConcurrency": 10},
            })
        );
        let object = child::<ServerlessService>(
            &key,
            &autoscaler,
            &serverless_service(&autoscaler, &selection("app=web"), &settings, REQUIRED, &plan()),
        );
        assert_eq!(
            object["spec"],
            json!({"service": "web-service", "selector": "app=web", "mode": "Serve", "numActivators": 3,
                "containerConcurrency": 10, "paused": false})
        );
    }
}
