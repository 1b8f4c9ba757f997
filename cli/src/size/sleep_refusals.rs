//! Why a workload must not be scaled to zero now. Pure.
//!
//! The conditions are the ones of the scale-to-zero sequence, with shorter times: the user decides
//! that the workload may sleep, so neither the window nor the grace period has to be over. What
//! remains keeps every request: activators are in the path and hold the next one, and none is in
//! flight.

use std::time::Duration;

use autoscaler::api::{PodAutoscaler, Route, ServerlessService, SksMode, condition};
use autoscaler::findings::wake::BLOCKING_REASONS;
use autoscaler::scaling::readable::CompactNumber;
use autoscaler::scaling::scale_to_zero::DECISION_LAG;
use jiff::Timestamp;

use crate::workloads::why_report::WhyReport;

/// Time in which every node follows a change of the Service's endpoints.
const ENDPOINTS_FOLLOWED: Duration = Duration::from_secs(10);
/// Age from which on a decision does not count any more: the decider decides every two seconds.
const FRESH: Duration = Duration::from_secs(10);

/// What was read of a workload.
pub(super) struct ObservedIdleness<'a> {
    pub(super) workload: &'a PodAutoscaler,
    pub(super) service: Option<&'a ServerlessService>,
    /// The metrics-adapter's report, or why there is none.
    pub(super) report: Result<WhyReport, String>,
    pub(super) now: Timestamp,
}

/// Every reason against zero, with what helps; empty if no request can be lost.
pub(super) fn refusals(observed: &ObservedIdleness<'_>) -> Vec<String> {
    let reasons = [
        not_allowed(observed),
        not_wakeable(observed),
        not_proxied(observed),
        not_verified(observed),
        not_idle(observed),
    ];
    reasons.into_iter().flatten().collect()
}

fn not_allowed(observed: &ObservedIdleness<'_>) -> Option<String> {
    let status = observed.workload.status.as_ref();
    let is_off_in_cluster = status.and_then(|it| it.reason.as_deref()) == Some("ScaleToZeroDisabled");
    (!observed.workload.spec.scale_to_zero || is_off_in_cluster).then(|| {
        "scale-to-zero is off, so requests at zero would get 503; annotate the HPA with \
         autoscaling.rouse.dev/scale-to-zero: \"true\", and leave enable-scale-to-zero of the cluster on"
            .to_owned()
    })
}

/// What the zero-scaler found against zero, in the condition Degraded.
fn not_wakeable(observed: &ObservedIdleness<'_>) -> Option<String> {
    let conditions = &observed.workload.status.as_ref()?.conditions;
    let degraded = condition(conditions, "Degraded").filter(|it| it.status == "True")?;
    let blocks = BLOCKING_REASONS.iter().any(|reason| reason.as_str() == degraded.reason);
    blocks.then(|| format!("what comes back would not serve ({}): {}", degraded.reason, degraded.message))
}

fn not_proxied(observed: &ObservedIdleness<'_>) -> Option<String> {
    let leads_to_pods = "the Service leads to the pods: a request would be refused until activators are in the path; \
                         that happens after a window without requests";
    let status = observed.service.and_then(|service| service.status.as_ref());
    let route = observed.workload.status.as_ref().and_then(|status| status.route);
    let Some(status) = status.filter(|it| it.mode == Some(SksMode::Proxy) && it.activators > 0) else {
        return Some(leads_to_pods.to_owned());
    };
    let populated =
        condition(&status.conditions, "ActivatorEndpointsPopulated").filter(|it| it.status == "True");
    let Some(populated) = populated.filter(|_| route == Some(Route::Activators)) else {
        return Some(leads_to_pods.to_owned());
    };
    let age = age(populated.last_transition_time.0, observed.now);
    (age < ENDPOINTS_FOLLOWED).then(|| {
        format!(
            "activators are in the path for {} s only, and nodes may not have followed; repeat the command in {} s",
            age.as_secs(),
            (ENDPOINTS_FOLLOWED.saturating_sub(age)).as_secs().max(1)
        )
    })
}

fn not_verified(observed: &ObservedIdleness<'_>) -> Option<String> {
    let conditions = &observed.workload.status.as_ref()?.conditions;
    let failed = condition(conditions, "ActivatorInPath").filter(|it| it.status == "False")?;
    // Reported by not_proxied.
    (failed.reason != "NotProxied").then(|| {
        format!("the path to the activators is not verified ({}): {}", failed.reason, failed.message)
    })
}

fn not_idle(observed: &ObservedIdleness<'_>) -> Option<String> {
    let report = match &observed.report {
        Ok(report) => report,
        Err(error) => return Some(format!("whether there are requests is unknown: {error}")),
    };
    let fresh = report.newest().filter(|decision| age(decision.at, observed.now) < FRESH);
    let Some(newest) = fresh else {
        let missing =
            report.missing.as_deref().unwrap_or("the metrics-adapter made no decision for ten seconds");
        return Some(format!("whether there are requests is unknown: {missing}"));
    };
    let Some(since) = newest.idle_since else {
        let load = report.load().map(|load| format!(" ({} {})", report.metric, CompactNumber(load)));
        return Some(format!("the workload receives requests{}", load.unwrap_or_default()));
    };
    let idle = age(since, observed.now);
    (idle < DECISION_LAG).then(|| {
        format!(
            "the last request ended {} s ago; repeat the command in {} s",
            idle.as_secs(),
            DECISION_LAG.as_secs()
        )
    })
}

/// Time since `then`; zero for one ahead of this machine's clock.
fn age(then: Timestamp, now: Timestamp) -> Duration {
    let millis = now.as_millisecond().saturating_sub(then.as_millisecond());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
