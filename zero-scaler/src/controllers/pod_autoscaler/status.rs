//! The status of a workload, for people. Pure: an observation, a plan and what was written in, a status out.

use autoscaler::api::{PodAutoscalerStatus, StartFailure, condition};
use autoscaler::contract::{CONFIG_MAP, INJECT_LABEL, PROTOCOL, SCALE_TO_ZERO};
use autoscaler::scaling::scale_to_zero::{ActivePhase, StayReason};
use autoscaler::scaling::workload_state::WorkloadState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::decide::{ACTIVATOR_IN_PATH, Plan, allowed, min_ready};
use super::observe::{HpaState, ObservedWorkload, is_of_hpa};
use super::scale_write::ScaleWriteResult;
use crate::controllers::blocking_condition::blocking_condition;
use crate::controllers::serverless_service::ADVICE;
use crate::kubernetes::conditions::{self, ConditionContent, INITIALIZED, is_true, set};
use crate::pods::sidecar::Sidecar;
use crate::scaling::last_activation::ACTIVE;
use crate::scaling::scale_targets::ScaleError;

const READY: &str = "Ready";
const HPA_ACCEPTED: &str = "HPAAccepted";
/// There while something keeps the wanted pods from starting.
const PODS_CAN_START: &str = "PodsCanStart";
/// Ready's reason when requests are refused for that.
const CANNOT_START: &str = "CannotStart";

/// The whole status.
pub(super) fn status(
    observed: &ObservedWorkload,
    plan: &Plan,
    written: &Result<ScaleWriteResult, ScaleError>,
    verification: Option<&Result<(), String>>,
) -> PodAutoscalerStatus {
    let before = observed.autoscaler.status.clone().unwrap_or_default();
    let generation = observed.autoscaler.metadata.generation;
    let size = match written {
        Ok(ScaleWriteResult::Size(size)) => Some(*size),
        _ => None,
    };
    let mut conditions = before.conditions;
    let mut say = |r#type, says| set(&mut conditions, r#type, says, generation, observed.now);
    say(ACTIVE, active(observed, plan));
    say(ACTIVATOR_IN_PATH, activator_in_path(observed, verification));
    say(READY, ready(observed, plan, written));
    match pods_can_start(observed) {
        Some(says) => say(PODS_CAN_START, says),
        None => conditions.retain(|c| c.type_ != PODS_CAN_START),
    }
    let mut say = |r#type, says| set(&mut conditions, r#type, says, generation, observed.now);
    match hpa_accepted(observed) {
        Some(says) => say(HPA_ACCEPTED, says),
        None => conditions.retain(|c| c.type_ != HPA_ACCEPTED),
    }
    let initialized = initialized(observed, plan, is_true(&conditions, INITIALIZED));
    set(&mut conditions, INITIALIZED, initialized, generation, observed.now);
    let replicas = size.or(observed.scale.as_ref().ok().map(|s| s.replicas)).or(before.replicas);
    PodAutoscalerStatus {
        observed_generation: generation,
        state: replicas.map(|replicas| state(observed, plan, replicas)),
        replicas,
        desired_replicas: observed.decision.as_ref().map(|d| i32::try_from(d.desired).unwrap_or(i32::MAX)),
        not_at_zero: not_at_zero(observed, plan, replicas).map(str::to_owned),
        mode: observed.serverless_service.as_ref().and_then(|s| s.status.as_ref()?.mode),
        conditions,
    }
}

fn state(observed: &ObservedWorkload, plan: &Plan, replicas: i32) -> WorkloadState {
    let wanted = u32::from(plan.activation.phase != ActivePhase::Inactive);
    WorkloadState::of(observed.settings.reachability, u32::try_from(replicas).unwrap_or(0), Some(wanted))
}

/// What keeps it from zero, in a word; without the target's size nothing can be said.
fn not_at_zero(observed: &ObservedWorkload, plan: &Plan, replicas: Option<i32>) -> Option<&'static str> {
    let awake = observed.scale.is_ok() && replicas.is_some_and(|replicas| replicas > 0);
    awake.then(|| match (plan.activation.phase, plan.why) {
        // One word, whatever else changes meanwhile: a wake should not be many writes.
        (ActivePhase::Activating, _) => StayReason::Activating.as_str(),
        (_, Some(why)) => why.as_str(),
        (_, None) => "GoingToZero",
    })
}

/// Once pods were ready the target is known to work; one that may start asleep need not show it.
fn initialized(observed: &ObservedWorkload, plan: &Plan, before: bool) -> ConditionContent {
    if min_ready(observed) == 0 {
        return ConditionContent::yes("MayStartAsleep", "");
    }
    if before || plan.activation.phase == ActivePhase::Active {
        return ConditionContent::yes("PodsWereReady", "");
    }
    ConditionContent::unknown(
        "NoPodYet",
        "the target has not had its initial, or smallest, number of ready pods yet",
    )
}

/// What went wrong since the status before, to be told once.
pub(super) fn warnings(
    observed: &ObservedWorkload,
    before: Option<&PodAutoscalerStatus>,
    after: &PodAutoscalerStatus,
) -> Vec<(&'static str, String)> {
    let was = |r#type: &str| before.and_then(|b| condition(&b.conditions, r#type));
    let is = |r#type: &str| condition(&after.conditions, r#type);
    let changed = |r#type: &str| match (was(r#type), is(r#type)) {
        (before, Some(after)) => {
            before.is_none_or(|b| (&b.status, &b.message) != (&after.status, &after.message))
        }
        _ => false,
    };
    let mut warnings = Vec::new();
    if let Some(ready) = is(READY).filter(|c| c.status == "False" && changed(READY)) {
        warnings.push(match is(PODS_CAN_START).filter(|_| ready.reason == CANNOT_START) {
            Some(cause) => (CANNOT_START, format!("{}: {}", cause.reason, cause.message)),
            None => ("NotReady", format!("{}: {}", ready.reason, ready.message)),
        });
    }
    // The HPA's settings are told on the HPA.
    if observed.hpa.is_none() && changed(READY) {
        warnings.extend(observed.bad_settings.iter().map(|e| ("BadSetting", format!("{e}; it is ignored"))));
    }
    warnings
}

fn active(observed: &ObservedWorkload, plan: &Plan) -> ConditionContent {
    if plan.paused {
        return ConditionContent::no("Paused", PAUSED);
    }
    let reason = plan.activation.reason.as_str();
    // Times are left out: they would make every look a write.
    let why = plan.why.map(|why| why_text(observed, why)).unwrap_or_default();
    match plan.activation.phase {
        ActivePhase::Active => ConditionContent::yes(reason, why),
        ActivePhase::Activating => ConditionContent::unknown(reason, "pods are wanted and not ready yet"),
        ActivePhase::Inactive => ConditionContent::no(reason, why),
    }
}

/// Why it is not at zero; where only a person can change that, how.
fn why_text(observed: &ObservedWorkload, why: StayReason) -> String {
    match why {
        StayReason::NotAllowed if !observed.settings.enable_scale_to_zero => {
            format!(
                "scale-to-zero is off for the whole cluster: enable-scale-to-zero in the ConfigMap {CONFIG_MAP}"
            )
        }
        StayReason::NotAllowed if is_of_hpa(&observed.autoscaler) => {
            format!("scale-to-zero is off: to allow it, annotate the HPA with {SCALE_TO_ZERO}: \"true\"")
        }
        StayReason::NotAllowed => "scale-to-zero is off: to allow it, set spec.scaleToZero".to_owned(),
        why => why.message().to_owned(),
    }
}

const PAUSED: &str = "somebody set the replicas to 0, and the workload may not go to zero by itself; requests are \
                      answered with 503 until the replicas are set to 1 or more";

fn activator_in_path(
    observed: &ObservedWorkload,
    verification: Option<&Result<(), String>>,
) -> ConditionContent {
    match (verification, observed.proxied_since()) {
        (Some(Ok(())), _) => ConditionContent::yes("Proven", "the Service is answered by activators"),
        (Some(Err(error)), _) => ConditionContent::no("NotProven", error.clone()),
        (None, None) => match observed.service.as_deref().and_then(blocking_condition) {
            Some(blocking_condition) => {
                ConditionContent::no(blocking_condition.reason, blocking_condition.message)
            }
            None => ConditionContent::no("NotProxied", "no activator is in the Service's endpoints"),
        },
        (None, Some(_)) => {
            // A proof holds for as long as the activators stay.
            match condition(conditions::of(&observed.autoscaler), ACTIVATOR_IN_PATH) {
                Some(Condition { status, .. }) if status == "True" => {
                    ConditionContent::yes("Proven", "the Service is answered by activators")
                }
                _ => ConditionContent::unknown(
                    "NotAsked",
                    "activators are in the endpoints; the Service has not been asked yet",
                ),
            }
        }
    }
}

fn pods_can_start(observed: &ObservedWorkload) -> Option<ConditionContent> {
    let failure = observed.start_failure.as_ref()?;
    let StartFailure { reason, message, pod, .. } = failure;
    let held = if failure.given_up { "refused with 503" } else { "still held" };
    let words = format!("pod {pod}: {reason}: {message}; requests are {held}");
    Some(ConditionContent::no(failure.cause.as_str(), words))
}

fn hpa_accepted(observed: &ObservedWorkload) -> Option<ConditionContent> {
    Some(match observed.hpa.as_ref()? {
        HpaState::Rejected(problem) | HpaState::Missing(problem) | HpaState::Silent(problem) => {
            ConditionContent::no(problem.reason, problem.message.clone())
        }
        HpaState::Accepted(advice) => match advice.first() {
            None => ConditionContent::yes("Accepted", ""),
            Some(first) => {
                let words = advice.iter().map(|p| p.message.as_str()).collect::<Vec<_>>().join("; ");
                ConditionContent::yes(first.reason, words)
            }
        },
    })
}

/// Whether somebody answers the workload's requests, be it asleep.
fn ready(
    observed: &ObservedWorkload,
    plan: &Plan,
    written: &Result<ScaleWriteResult, ScaleError>,
) -> ConditionContent {
    let bad_settings =
        observed.bad_settings.iter().map(|e| format!("{e}; it is ignored")).collect::<Vec<_>>();
    match &observed.scale {
        Err(error) => return ConditionContent::no(error.reason(), error.to_string()),
        Ok(scale) if scale.selector.is_empty() => {
            return ConditionContent::no(
                "NoSelector",
                "the target's /scale has no status.selector, so its pods are not known: have its CustomResourceDefinition \
                 name one by subresources.scale.labelSelectorPath",
            );
        }
        Ok(_) if plan.paused => return ConditionContent::no("Paused", PAUSED),
        Ok(_) => {}
    }
    if let Some(rival) = &observed.rival {
        let words = format!(
            "the workload {} scales the same {} already, so no size is written for this one; delete one of the two",
            rival.name, observed.autoscaler.spec.scale_target_ref.kind
        );
        return ConditionContent::no("TargetTaken", words);
    }
    match &observed.hpa {
        Some(HpaState::Rejected(problem)) => {
            let words = format!("{}; until then what it asked for before holds", problem.message);
            return ConditionContent::no(problem.reason, words);
        }
        Some(HpaState::Missing(problem)) => {
            return ConditionContent::no(problem.reason, problem.message.clone());
        }
        Some(HpaState::Accepted(_) | HpaState::Silent(_)) | None => {}
    }
    if let Err(error) = written {
        return ConditionContent::no("ScaleNotWritten", error.to_string());
    }
    let sks =
        observed.serverless_service.as_ref().and_then(|s| condition(&s.status.as_ref()?.conditions, READY));
    match sks {
        None => {
            return ConditionContent::unknown(
                "ServiceNotReadyYet",
                "the ServerlessService has not been looked at yet",
            );
        }
        Some(c) if c.status == "False" => {
            return ConditionContent::no("ServiceNotReady", format!("{}: {}", c.reason, c.message));
        }
        Some(c) if c.status == "Unknown" => {
            return ConditionContent::unknown("ServiceNotReadyYet", c.message.clone());
        }
        Some(_) => {}
    }
    if let Some(words) = sidecar_missing(observed) {
        return ConditionContent::no("SidecarMissing", words);
    }
    if let Some(words) = protocol_mismatch(observed) {
        return ConditionContent::no("ProtocolMismatch", words);
    }
    match plan.activation.phase {
        ActivePhase::Activating
            if observed.start_failure.as_ref().is_some_and(|failure| failure.given_up) =>
        {
            ConditionContent::no(
                CANNOT_START,
                "the pods cannot start; requests are refused with 503 until one can",
            )
        }
        ActivePhase::Activating => {
            ConditionContent::unknown("Activating", "pods are wanted and not ready yet")
        }
        _ if !bad_settings.is_empty() => ConditionContent::yes("BadSetting", bad_settings.join("; ")),
        phase => match advice(observed) {
            Some((reason, words)) => ConditionContent::yes(reason, words),
            None if phase == ActivePhase::Active => ConditionContent::yes("Serving", ""),
            None => ConditionContent::yes("Idle", "requests are held by activators"),
        },
    }
}

/// What about its Service a workload has to be told of that is Ready all the same.
pub(super) fn advice(observed: &ObservedWorkload) -> Option<(&'static str, String)> {
    let status = observed.serverless_service.as_ref()?.status.as_ref()?;
    let ready = condition(&status.conditions, READY).filter(|ready| ready.status == "True");
    if let Some(ready) = ready
        && let Some(reason) = ADVICE.into_iter().find(|reason| *reason == ready.reason)
    {
        return Some((reason, ready.message.clone()));
    }
    let blocking_condition = blocking_condition(observed.service.as_ref()?).filter(|_| allowed(observed))?;
    Some((blocking_condition.reason, blocking_condition.message.to_owned()))
}

fn sidecar_missing(observed: &ObservedWorkload) -> Option<String> {
    if observed.sidecar == Some(Sidecar::Missing) {
        return Some(format!(
            "the pods have no sidecar, so nobody counts their requests: label the target's pod template with {INJECT_LABEL}: \"true\""
        ));
    }
    // The template says that there is one, or cannot be seen.
    let pod = observed.bare.as_ref()?;
    Some(format!(
        "pod {pod} is ready and has no sidecar, so no request reaches it: label the target's pod template with {INJECT_LABEL}: \
         \"true\" and apply Rouse's admission policy (queue-proxy.yaml), or write the sidecar by hand; then restart the pods, \
         which get none later"
    ))
}

/// A port of the Service on which something else is spoken than the pods' sidecars do.
fn protocol_mismatch(observed: &ObservedWorkload) -> Option<String> {
    let Some(Sidecar::Speaks(pods)) = observed.sidecar else { return None };
    let lease = observed.leases().iter().find(|lease| lease.protocol != pods)?;
    let (port, protocol) = (lease.service_port, lease.protocol);
    Some(format!(
        "port {port} of the Service is {protocol} by its appProtocol, and the pods' sidecars take {pods}: annotate the pods with \
         {PROTOCOL}: {protocol}, or change the port's appProtocol"
    ))
}
