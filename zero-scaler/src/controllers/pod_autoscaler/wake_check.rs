//! Whether what comes back from zero would serve, for one observed workload.

use autoscaler::api::condition;
use autoscaler::findings::Problem;
use autoscaler::findings::wake::{WakeEvidence, blocking_condition};

use super::decide::allowed;
use super::observe::ObservedWorkload;
use crate::controllers::context::Context;
use crate::controllers::serverless_service::READY;
use crate::kubernetes::reasons::Reason;

/// The result that is known without a request to the API server: what always holds, else what the
/// last check found.
pub(super) fn known(observed: &ObservedWorkload, context: &Context) -> Option<Result<(), Problem>> {
    if !allowed(observed) {
        return None;
    }
    let always = blocking_condition(&WakeEvidence { is_serving: false, ..evidence(observed) });
    let problem = always.or_else(|| context.scaling.wake_checks.in_force(&observed.key))?;
    Some(Err(of_target(observed, problem)))
}

/// Checks it.
pub(super) async fn check(observed: &ObservedWorkload, context: &Context) -> Result<(), Problem> {
    let selector = observed.target_selector().unwrap_or_default();
    let target = &observed.autoscaler.spec.scale_target_ref;
    let checks = &context.scaling.wake_checks;
    let checked = checks.check(&observed.key, target, selector, evidence(observed)).await;
    checked.map_or(Ok(()), |problem| Err(of_target(observed, problem)))
}

fn evidence(observed: &ObservedWorkload) -> WakeEvidence<'_> {
    let zero = &observed.settings.zero;
    WakeEvidence {
        next: &observed.next_pods,
        may_delete_volumes: zero.delete_volumes,
        is_serving: observed.ready > 0 && zero.reachability.is_reachable(),
        refused_write: refused_write(observed),
        pods: &[],
        refused_pod: None,
        other_template: None,
    }
}

/// An object of the Service that the API server refuses, or of which the name is taken.
fn refused_write(observed: &ObservedWorkload) -> Option<&str> {
    let status = observed.serverless_service.as_ref()?.status.as_ref()?;
    let ready = condition(&status.conditions, READY)?;
    let refused = [Reason::WriteRefused, Reason::PrivateServiceTaken].map(Reason::as_str);
    refused.contains(&ready.reason.as_str()).then_some(ready.message.as_str())
}

fn of_target(observed: &ObservedWorkload, problem: Problem) -> Problem {
    let target = &observed.autoscaler.spec.scale_target_ref;
    problem.of_target(&observed.key.namespace, &format!("{}/{}", target.kind.to_lowercase(), target.name))
}
